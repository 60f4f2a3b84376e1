import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

/** Writes a file that appears under its name when it is whole. A try that was cut off leaves at most one `.part`. */
export async function writeWhole(path: string, source: AsyncIterable<Uint8Array>): Promise<void> {
  const part = `${path}.part`;
  await rm(part, { force: true });
  const handle = await open(part, 'wx', 0o644);
  try {
    await pipeline(source, handle.createWriteStream());
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
