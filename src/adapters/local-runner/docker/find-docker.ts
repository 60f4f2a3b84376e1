import { join } from 'node:path';
import { Engine } from './engine.ts';

/** A daemon that is there answers at once; nobody waits longer for one that is not. */
const ANSWER_MS = 2_000;

/** Where the daemon of the machine listens. */
const SYSTEM = '/var/run/docker.sock';

export type DockerSearch =
  /** `name` says what answers there, as `Docker 20.10.24`. */
  { readonly socket: string; readonly name: string } | { readonly socket?: never; readonly reason: string };

/**
 * The socket of a container engine that answers. If `DOCKER_HOST` is set, that one or none: whoever names a daemon does
 * not want scripts on another.
 */
export async function findDocker(environment: NodeJS.ProcessEnv, system = SYSTEM): Promise<DockerSearch> {
  const host = environment['DOCKER_HOST'];
  if (host && !host.startsWith('unix://')) {
    return {
      reason: `DOCKER_HOST is ${host}: only a socket of this machine can be used, as unix:///var/run/docker.sock`,
    };
  }
  const refusals: string[] = [];
  for (const socket of host ? [host.slice('unix://'.length)] : usualSockets(environment, system)) {
    const engine = new Engine(socket);
    try {
      const { name } = await engine.version(ANSWER_MS);
      return { socket, name };
    } catch (error) {
      refusals.push(error instanceof Error ? error.message : String(error));
    } finally {
      engine.close();
    }
  }
  return { reason: refusals.join('; ') };
}

function usualSockets(environment: NodeJS.ProcessEnv, system: string): string[] {
  const own = environment['XDG_RUNTIME_DIR'];
  return own ? [system, join(own, 'docker.sock'), join(own, 'podman/podman.sock')] : [system];
}
