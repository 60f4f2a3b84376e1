import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A connection for raw bytes. */
export interface RawConnection extends Disposable {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** Resolves to all received bytes when they match, or when the connection ends. */
  until(pattern: RegExp): Promise<string>;
  /** Resolves when the server has closed the connection. */
  closed(): Promise<void>;
}

export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  let ended = false;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const check of waiting) check();
  };
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    wake();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    ended = true;
    wake();
  });
  const condition = async (holds: () => boolean) => {
    if (holds() || ended) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = () => {
      if (holds() || ended) resolve();
    };
    waiting.add(check);
    await promise;
    waiting.delete(check);
  };
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    async until(pattern) {
      await condition(() => pattern.test(text));
      return text;
    },
    closed: () => condition(() => ended),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** The request line and headers as raw text. */
export function headOf(method: string, path: string, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}
