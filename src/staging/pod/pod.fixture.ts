import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { S3Access } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { scratch } from '../transfers/embedded-store.fixture.ts';
import { ORDER_FILES, type PodLayout, type SharedParts, sharedParts } from './layout.ts';
import { type PodOrders, type PodStores, writeOrders, writeStores } from './orders.ts';
import { type PodResult, readResult } from './result.ts';
import { stageIn } from './stage-in.ts';
import { POD_WRAPPER } from './wrapper.ts';

const PROGRAM = fileURLToPath(new URL('./stage.child.ts', import.meta.url));

/** Shells of common images; those that this machine has are tested. */
export const SHELLS = [['/bin/dash'], ['/bin/bash', '--posix'], ['/bin/busybox', 'sh']].filter(([program = '']) =>
  existsSync(program),
);

export const STORE = 'minio.default';
export const TO_OUTPUTS = { store: STORE, bucket: 'outputs', folder: 'allowed', prefix: [], suffix: [] };

export interface Program {
  readonly child: ChildProcess;
  /** Resolves to the exit code or the signal. */
  readonly ended: Promise<number | string>;
  /** The output so far. */
  printed(): string;
}

interface WrapperOptions {
  readonly shell?: readonly string[];
  readonly uid?: number;
  readonly moments?: number;
  /** The directory of the marker `done`, if stage-out does not write it. */
  readonly said?: string;
}

/** A pod made of directories and processes; the fixture acts as the kubelet. The end of the test ends all processes. */
export class PodUnderTest {
  readonly layout: PodLayout;
  readonly parts: SharedParts;
  readonly script: string;
  readonly #t: Pick<TestContext, 'after'>;
  readonly #orders: string;
  #versions = 0;

  constructor(t: Pick<TestContext, 'after'>, orders: Partial<PodOrders> = {}, stores: Partial<PodStores> = {}) {
    const root = scratch(t);
    const at = (name: string) => join(root, name);
    this.#t = t;
    // A script of another user must have access.
    chmodSync(root, 0o711);
    this.layout = { orders: at('orders'), shared: at('shared'), termination: at('termination-log') };
    this.parts = sharedParts(this.layout.shared);
    this.script = at('script.sh');
    for (const path of [this.layout.orders, this.layout.shared]) mkdirSync(path);
    writeFileSync(this.layout.termination, '');
    const input = { kind: 'none' } as const;
    this.#orders = writeOrders({ attempt: 'try-1', input, outputs: [], answer: false, networks: [], ...orders });
    this.give(stores);
  }

  /** Writes the Secret as the kubelet does: a link replaces all files at once. */
  give({ stores = new Map(), verify = true, ...rest }: Partial<PodStores>, input?: Uint8Array): void {
    const { orders } = this.layout;
    const version = `..${++this.#versions}`;
    mkdirSync(join(orders, version));
    writeFileSync(join(orders, version, ORDER_FILES.orders), this.#orders);
    writeFileSync(join(orders, version, ORDER_FILES.stores), writeStores({ stores, verify, ...rest }));
    if (input) writeFileSync(join(orders, version, ORDER_FILES.input), input);
    symlinkSync(version, join(orders, '..new'));
    renameSync(join(orders, '..new'), join(orders, '..data'));
    for (const name of Object.values(ORDER_FILES))
      if (!existsSync(join(orders, name)) && existsSync(join(orders, version, name)))
        symlinkSync(join('..data', name), join(orders, name));
  }

  async stageIn(): Promise<{ readonly code: number | string; readonly result: PodResult | undefined }> {
    const code = await this.#start('stage-in').ended;
    return { code, result: this.result() };
  }

  stageOut(): Program {
    return this.#start('stage-out');
  }

  /** Runs the script in its wrapper, with a shell. */
  wrapped(
    script: string,
    { shell = ['/bin/sh'], uid, moments = 40, said = this.parts.said }: WrapperOptions = {},
  ): Program {
    const { output, marks, input } = this.parts;
    writeFileSync(this.script, script, { mode: 0o644 });
    const [program = '', ...args] = shell;
    const child = spawn(
      program,
      [...args, '-c', POD_WRAPPER, 'oscar', this.script, output, marks, said, String(moments)],
      {
        env: { PATH: process.env['PATH'], TMP_OUTPUT_DIR: output, TMP_INPUT_DIR: input, MARKS: marks },
        stdio: ['ignore', 'pipe', 'inherit'],
        detached: true,
        ...(uid !== undefined && { uid, gid: uid }),
      },
    );
    return this.#program(child);
  }

  /** Runs a whole pod: after the script has ended, stage-out is asked to end. */
  async run(script: string): Promise<{ code: number | string; printed: string; result: PodResult | undefined }> {
    await stageIn(this.layout);
    const beside = this.stageOut();
    const code = await this.wrapped(script).ended;
    await end(beside);
    return { code, printed: beside.printed(), result: this.result() };
  }

  result(): PodResult | undefined {
    return readResult(readFileSync(this.layout.termination, 'utf8'));
  }

  #start(program: 'stage-in' | 'stage-out'): Program {
    const { orders, shared, termination } = this.layout;
    const args = [PROGRAM, program, orders, shared, termination];
    return this.#program(spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], detached: true }));
  }

  #program(child: ChildProcess): Program {
    this.#t.after(() => endGroup(child));
    let printed = '';
    child.stdout?.setEncoding('latin1').on('data', (text: string) => {
      printed += text;
    });
    const ended = once(child, 'close').then(([code, signal]) => (signal ?? code) as number | string);
    return { child, ended, printed: () => printed };
  }
}

/** Sends TERM, as the kubelet does, once the process handles it. Resolves to how the process ended. */
export async function end(beside: Program): Promise<number | string> {
  await eventually(() => assert.match(beside.printed(), /oscar: /));
  beside.child.kill('SIGTERM');
  return beside.ended;
}

/** Kills the process group, as at the end of a container. */
export function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}

/** Delays in microseconds while a shell starts another one, dense enough to hit each step. */
export const MOMENTS = Array.from({ length: 40 }, (_, index) => index * 50);

/** Busy-waits, because timers are not precise enough. */
export function passMicroseconds(microseconds: number): void {
  const then = process.hrtime.bigint() + BigInt(microseconds) * 1_000n;
  while (process.hrtime.bigint() < then);
}

export const toPodStores = (access: S3Access) => ({ stores: new Map([[STORE, access]]) });
