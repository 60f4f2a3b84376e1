import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { scratch } from '../transfers/embedded-store.fixture.ts';
import { GIVEN_FILES, ORDER_FILES, type SharedParts, sharedParts, type WarmLayout } from './layout.ts';
import { type PodOrders, type PodStores, writeOrders, writeStores } from './orders.ts';
import { endGroup, type Program } from './pod.fixture.ts';
import { type PodResult, readResult } from './result.ts';
import { WARM_WRAPPER } from './wrapper.ts';

const PROGRAM = fileURLToPath(new URL('./stage.child.ts', import.meta.url));

export interface Given {
  readonly orders?: Partial<PodOrders>;
  readonly stores?: Partial<PodStores>;
  readonly input?: Uint8Array;
  readonly script?: string;
  /** The command before the shell: `exec env -- NAME=value`. */
  readonly env?: string;
}

/** A warm pod made of directories and processes. The end of the test ends all processes. */
export class WarmPodUnderTest {
  readonly layout: WarmLayout;
  readonly parts: SharedParts;
  readonly #t: Pick<TestContext, 'after'>;

  constructor(t: Pick<TestContext, 'after'>) {
    const root = scratch(t);
    const at = (name: string) => join(root, name);
    this.#t = t;
    chmodSync(root, 0o711);
    this.layout = {
      orders: at('orders'),
      shared: at('shared'),
      termination: at('termination-log'),
      given: at('given'),
    };
    this.parts = sharedParts(this.layout.shared);
    for (const path of [this.layout.orders, this.layout.shared, this.layout.given]) mkdirSync(path);
    writeFileSync(this.layout.termination, '');
  }

  /** Writes the Secret as the kubelet does: a link makes all files appear at once. */
  give({ orders = {}, stores = {}, input, script = '', env = 'exec env --' }: Given): void {
    const directory = this.layout.orders;
    const file = join(this.layout.given, GIVEN_FILES.script);
    const files: Record<string, string | Uint8Array> = {
      [ORDER_FILES.orders]: writeOrders({
        attempt: 'try-1',
        input: { kind: 'none' },
        outputs: [],
        answer: false,
        networks: [],
        ...orders,
      }),
      [ORDER_FILES.stores]: writeStores({ stores: new Map(), verify: true, ...stores }),
      [GIVEN_FILES.script]: script,
      [GIVEN_FILES.begin]: `${env} /bin/sh ${file}\n`,
      ...(input && { [ORDER_FILES.input]: input }),
    };
    mkdirSync(join(directory, '..1'));
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(directory, '..1', name), content);
      symlinkSync(join('..data', name), join(directory, name));
    }
    symlinkSync('..1', join(directory, '..new'));
    renameSync(join(directory, '..new'), join(directory, '..data'));
  }

  beside(uid?: number): Program {
    const { orders, shared, termination, given } = this.layout;
    const args = [PROGRAM, 'stage-wait', orders, shared, termination, given];
    const who = uid === undefined ? {} : { uid, gid: uid };
    return this.#program(
      spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], detached: true, ...who }),
    );
  }

  /** Runs the wrapper of the script's container, with a shell. */
  waits({ shell = ['/bin/sh'], uid }: { shell?: readonly string[]; uid?: number } = {}): Program {
    const { output, marks, said } = this.parts;
    const begin = join(this.layout.given, GIVEN_FILES.begin);
    const [program = '', ...args] = shell;
    const child = spawn(program, [...args, '-c', WARM_WRAPPER, 'oscar', begin, output, marks, said, '40'], {
      env: { PATH: process.env['PATH'], TMP_OUTPUT_DIR: output, INHERITED: 'yes' },
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
      ...(uid !== undefined && { uid, gid: uid }),
    });
    return this.#program(child);
  }

  /** Whether the directories that the script's container mounts exist, the last one writable for all. */
  get isUp(): boolean {
    return existsSync(this.parts.marks) && (statSync(this.parts.marks).mode & 0o777) === 0o777;
  }

  result(): PodResult | undefined {
    return readResult(readFileSync(this.layout.termination, 'utf8'));
  }

  #program(child: ChildProcess): Program {
    this.#t.after(() => endGroup(child));
    let printed = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    const ended = once(child, 'close').then(([code, signal]) => (signal ?? code) as number | string);
    return { child, ended, printed: () => printed };
  }
}
