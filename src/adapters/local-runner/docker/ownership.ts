import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AttemptDirectory, LaunchOrder } from '../launcher.ts';
import { CONTAINER_VIEW, containerName } from './container-spec.ts';
import type { ContainerSpec, Containers } from './containers.ts';
import type { Engine } from './engine.ts';

export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Gives every user of the container access to the script and the directories, because the image decides which user runs.
 * Other users of this machine have no access: only the manager can enter the attempt's directory, which contains them.
 */
export async function openToContainer({ script, input, output }: AttemptDirectory): Promise<void> {
  await chmod(script, 0o644);
  await chmod(output, 0o777);
  for await (const { path, isDirectory } of walk(input)) await chmod(path, isDirectory ? 0o777 : 0o666);
}

/**
 * Makes the manager the owner of all files that the script left. A manager that is not root can neither read nor remove
 * files of root or of another user, so a second container of the same image runs `chown` as root. With an image that has no
 * `chown` the files cannot be uploaded or removed, and staging reports that.
 */
export async function takeOwnership(
  order: LaunchOrder,
  { engine, containers, owner }: { engine: Engine; containers: Containers; owner: FileOwner },
): Promise<void> {
  if (owner.uid === 0 || !(await hasForeignFiles(order.directory, owner.uid))) return;
  const name = containerName(`${order.name}-ownership`);
  const spec = chownSpec(order, owner, await readSecurity(engine));
  const previous = await containers.inspect(name);
  if (previous) await containers.remove(previous.id);
  const id = await containers.create(name, order.name, spec);
  try {
    await containers.start(id);
    await containers.wait(id, AbortSignal.timeout(CHOWN_MS));
  } finally {
    await containers.remove(id);
  }
}

/** Enough for a million files. A longer time delays the end of an attempt when `chown` hangs. */
const CHOWN_MS = 60_000;

/** In a rootless engine, root of the container is the user who runs the engine, which is the manager's. */
function chownSpec({ image, directory }: LaunchOrder, owner: FileOwner, security: Security): ContainerSpec {
  const { uid, gid } = security.rootless ? { uid: 0, gid: 0 } : owner;
  return {
    Image: image,
    User: '0:0',
    Entrypoint: ['chown', '-R', '-h', `${uid}:${gid}`, CONTAINER_VIEW.input, CONTAINER_VIEW.output],
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      Binds: [`${directory.input}:${CONTAINER_VIEW.input}:rw,Z`, `${directory.output}:${CONTAINER_VIEW.output}:rw,Z`],
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
  /** Root in a container is another user outside of it. */
  readonly remapped: boolean;
}

async function readSecurity(engine: Engine): Promise<Security> {
  const { SecurityOptions: options } = await engine.request<{ SecurityOptions?: string[] | null }>('GET', '/info');
  const has = (name: string) => options?.some((each) => each.split(',').includes(`name=${name}`)) ?? false;
  return { rootless: has('rootless'), remapped: has('userns') };
}

async function hasForeignFiles({ input, output }: AttemptDirectory, uid: number): Promise<boolean> {
  for (const directory of [input, output]) {
    for await (const entry of walk(directory)) {
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

/** Yields the directory and everything in it except links. */
async function* walk(directory: string): AsyncIterable<Entry> {
  const inside = await readdir(directory, { withFileTypes: true }).catch(() => undefined);
  yield { path: directory, isDirectory: true, unreadable: inside === undefined };
  for (const entry of inside ?? []) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (!entry.isSymbolicLink()) yield { path, isDirectory: false, unreadable: false };
  }
}
