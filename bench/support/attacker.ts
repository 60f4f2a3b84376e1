import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Attacks a manager from a process of its own, until it is killed. Whatever the manager answers, the attack goes on. It prints how many
 * answers and closed connections it has seen, which shows that the attack took place.
 */

export type Attack =
  /** Connections that open requests and never finish their headers. */
  | { readonly kind: 'slow'; readonly url: string; readonly connections: number }
  /** Connections that send the same request over and over. */
  | {
      readonly kind: 'flood';
      readonly url: string;
      readonly connections: number;
      readonly method: string;
      readonly headers: Readonly<Record<string, string>>;
      /** The size of the body, or the body. */
      readonly body?: number | string;
    };

// Not an argument: a body may be larger than arguments can be.
const attack = JSON.parse(await text(process.stdin)) as Attack;
let seen = 0;
process.once('SIGTERM', () => {
  process.stdout.write(`${seen}\n`, () => process.exit());
});
process.stdout.write('begun\n');
await Promise.all(
  Array.from({ length: attack.connections }, () => (attack.kind === 'slow' ? holdOpen(attack.url) : flood(attack))),
);

/** Opens the connection again whenever the manager closes it. */
async function holdOpen(url: string): Promise<never> {
  const { hostname, port } = new URL(url);
  for (;;) {
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), hostname, () => {
        seen++;
        socket.write('GET /system/services HTTP/1.1\r\nhost: x\r\n');
      });
      const timer = setInterval(() => socket.write('x-slow: y\r\n'), 500);
      socket.on('error', () => undefined).resume();
      socket.once('close', () => {
        clearInterval(timer);
        resolve();
      });
    });
    await pause(10);
  }
}

async function flood(wave: Extract<Attack, { kind: 'flood' }>): Promise<never> {
  const { url, method, headers, body = '' } = wave;
  const bytes = typeof body === 'number' ? Buffer.alloc(body, 'x') : Buffer.from(body);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (;;) {
    const answered = await new Promise<boolean>((resolve) => {
      const sent = request(
        url,
        { agent, method, headers: { ...headers, 'content-length': bytes.length } },
        (answer) => {
          answer.resume().once('close', () => resolve(true));
        },
      );
      sent.once('error', () => resolve(false));
      sent.once('close', () => resolve(false));
      sent.end(bytes);
    });
    seen++;
    // A connection that was refused: an attacker that does not wait attacks only its own processor.
    if (!answered) await pause(5);
  }
}
