import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GATEWAY } from './node/names.ts';

/** The directories in which tests and scripts wait for each other (`Meeting` in test/support/jobs.ts). */
const MEETINGS = join(tmpdir(), 'oscar-meeting-');

/** Gives scripts in pods access to the meeting directories of this machine, over the network. */
export class MeetingServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(): Promise<MeetingServer> {
    const far = new MeetingServer();
    far.#server.listen(0, GATEWAY);
    await once(far.#server, 'listening');
    return far;
  }

  /** The value of the variable that the test process gets: host and port. */
  get address(): string {
    const address = this.#server.address();
    return `${GATEWAY} ${typeof address === 'object' && address ? address.port : 0}`;
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let text = '';
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      if (text.endsWith('\n')) socket.end(answerQuestion(text.trim()) ? 'yes\n' : 'no\n');
    });
  }
}

/** Answers `is - <file>` (does it exist?) and `say <job> <file> <words>` (write it). */
function answerQuestion(question: string): boolean {
  const [verb, job = '', file = '', ...words] = question.split(' ');
  if (!file.startsWith(MEETINGS)) return false;
  // The test has ended and removed its directory.
  if (!existsSync(dirname(file))) return true;
  if (verb === 'is') return existsSync(file);
  const here = words.map((word) => (/^\d+$/.test(word) ? findHostPid(job, word) : word));
  if (here.includes(undefined)) return false;
  writeFileSync(`${file}.new`, `${here.join(' ')}\n`);
  renameSync(`${file}.new`, file);
  return true;
}

/** Finds the PID on this machine of the job's process that has this PID in its pod. */
function findHostPid(job: string, id: string): string | undefined {
  return readdirSync('/proc').find((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const ids = /^NSpid:\t\d+\t(?:\d+\t)*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
      return ids?.[1] === id && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`JOB_UUID=${job}\0`);
    } catch {
      // The process has ended.
      return false;
    }
  });
}
