import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AttemptDirectory, LaunchOrder } from '../launcher.ts';
import { containerName, VIEW } from './container-spec.ts';
import type { ContainerSpec, Containers } from './containers.ts';
import type { Engine } from './engine.ts';

/** Whose the files are to be afterwards. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Lets every user of the container read the script and use the directories, whoever the image says it is. No user of
 * this machine gets in: the attempt's own directory around them is closed to all others.
 */
export async function openToContainer({ script, input, output }: AttemptDirectory): Promise<void> {
  await chmod(script, 0o644);
  await chmod(output, 0o777);
  for await (const { path, isDirectory } of below(input)) await chmod(path, isDirectory ? 0o777 : 0o666);
}

/**
 * A manager that is not root can neither read nor remove what root or another user of the container has left. Then a
 * second container of the same image, as root, gives everything to the manager. An image without `chown` leaves files
 * that cannot be uploaded or removed; the staging says so.
 */
export async function takeOwnership(
  order: LaunchOrder,
  { engine, containers, owner }: { engine: Engine; containers: Containers; owner: Owner },
): Promise<void> {
  if (owner.uid === 0 || !(await hasForeign(order.directory, owner.uid))) return;
  const name = containerName(`${order.name}-ownership`);
  const spec = chownSpec(order, owner, await securityOf(engine));
  const left = await containers.inspect(name);
  if (left) await containers.remove(left.id);
  const id = await containers.create(name, order.name, spec);
  try {
    await containers.start(id);
    await containers.wait(id, AbortSignal.timeout(CHOWN_MS));
  } finally {
    await containers.remove(id);
  }
}

/** Enough for a million files. */
const CHOWN_MS = 60_000;

/** In a rootless engine root of the container is who runs the engine: the manager. */
function chownSpec({ image, directory }: LaunchOrder, owner: Owner, security: Security): ContainerSpec {
  const { uid, gid } = security.rootless ? { uid: 0, gid: 0 } : owner;
  return {
    Image: image,
    User: '0:0',
    Entrypoint: ['chown', '-R', '-h', `${uid}:${gid}`, VIEW.input, VIEW.output],
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      Binds: [`${directory.input}:${VIEW.input}:rw,Z`, `${directory.output}:${VIEW.output}:rw,Z`],
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      CapAdd: ['CHOWN', 'DAC_READ_SEARCH', 'FOWNER'],
      SecurityOpt: ['no-new-privileges'],
      ...(security.remapped && { UsernsMode: 'host' }),
      LogConfig: { Type: 'none' },
    },
  };
}

interface Security {
  readonly rootless: boolean;
  /** Root of a container is another user outside. */
  readonly remapped: boolean;
}

async function securityOf(engine: Engine): Promise<Security> {
  const { SecurityOptions: options } = await engine.ask<{ SecurityOptions?: string[] | null }>('GET', '/info');
  const has = (name: string) => options?.some((each) => each.split(',').includes(`name=${name}`)) ?? false;
  return { rootless: has('rootless'), remapped: has('userns') };
}

async function hasForeign({ input, output }: AttemptDirectory, uid: number): Promise<boolean> {
  for (const directory of [input, output]) {
    for await (const entry of below(directory)) {
      if (entry.unreadable || (await lstat(entry.path)).uid !== uid) return true;
    }
  }
  return false;
}

interface Entry {
  readonly path: string;
  readonly isDirectory: boolean;
  readonly unreadable: boolean;
}

/** The directory and everything in it, but for links. */
async function* below(directory: string): AsyncIterable<Entry> {
  const inside = await readdir(directory, { withFileTypes: true }).catch(() => undefined);
  yield { path: directory, isDirectory: true, unreadable: inside === undefined };
  for (const entry of inside ?? []) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* below(path);
    else if (!entry.isSymbolicLink()) yield { path, isDirectory: false, unreadable: false };
  }
}
