import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const CHILD = fileURLToPath(new URL('../../src/s3-server/serve.child.ts', import.meta.url));

export interface ServeProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly endpoint: string;
  /** Sends SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>;
}

/** A store in a separate process. */
export async function startServeProcess(directory: string, { partBytes = '' } = {}): Promise<ServeProcess> {
  const child = spawn(process.execPath, [CHILD, directory, partBytes], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, 'line') as Promise<[string]>,
    exited.then(() => Promise.reject(new Error('the store did not start'))),
  ]);
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  return { child, endpoint: `http://127.0.0.1:${line}`, kill, [Symbol.asyncDispose]: kill };
}
