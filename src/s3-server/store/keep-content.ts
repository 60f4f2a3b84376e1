import { S3Error } from '../lib/errors.ts';
import type { ContentFiles } from './content-files.ts';
import type { ContentWriter } from './content-writer.ts';

/**
 * Makes the database mention a file that was written for it. When it refuses, the file goes. When nobody can say
 * whether it took it, because the disk failed, the file stays: the sweep of the next start knows.
 */
export async function keepContent<T>(
  files: ContentFiles,
  writer: ContentWriter,
  mention: () => Promise<T>,
): Promise<T> {
  try {
    const result = await mention();
    files.settle(writer.file);
    return result;
  } catch (error) {
    const unknown = error instanceof S3Error && error.code === 'ServiceUnavailable';
    if (!unknown) await files.abandon(writer);
    throw error;
  }
}
