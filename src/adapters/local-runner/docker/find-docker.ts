import { join } from 'node:path';
import { Engine } from './engine.ts';

/** A running daemon answers at once. A longer time delays the start of a manager on a machine whose daemon hangs. */
const ANSWER_MS = 2_000;

/** The default socket of the machine's daemon. */
const SYSTEM_SOCKET = '/var/run/docker.sock';

export type DockerSearch =
  /** `name` is the product and version, such as `Docker 20.10.24`. */
  { readonly socket: string; readonly name: string } | { readonly socket?: never; readonly reason: string };

/**
 * Finds the socket of a container engine that answers. If `DOCKER_HOST` is set, no other socket is tried: a user who names a
 * daemon does not want scripts on another one.
 */
export async function findDocker(environment: NodeJS.ProcessEnv, system = SYSTEM_SOCKET): Promise<DockerSearch> {
  const host = environment['DOCKER_HOST'];
  if (host && !host.startsWith('unix://')) {
    return {
      reason: `DOCKER_HOST is ${host}: only a socket of this machine can be used, such as unix:///var/run/docker.sock`,
    };
  }
  const reasons: string[] = [];
  for (const socket of host ? [host.slice('unix://'.length)] : usualSockets(environment, system)) {
    const engine = new Engine(socket);
    try {
      const { name } = await engine.version(ANSWER_MS);
      return { socket, name };
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    } finally {
      engine.close();
    }
  }
  return { reason: reasons.join('; ') };
}

function usualSockets(environment: NodeJS.ProcessEnv, system: string): string[] {
  const own = environment['XDG_RUNTIME_DIR'];
  return own ? [system, join(own, 'docker.sock'), join(own, 'podman/podman.sock')] : [system];
}
