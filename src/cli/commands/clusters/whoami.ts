import { ClientError } from '../../client/errors.ts';
import type { Session } from '../../client/session.ts';
import { type Column, show } from '../../client/table.ts';
import { act, type Register, showCommand } from '../command.ts';

/** As whom commands act on one cluster. */
interface Identity {
  readonly cluster: string;
  readonly user: string;
  readonly kind: 'administrator' | 'user' | 'nobody';
  /** Whether the manager accepts the credentials. */
  readonly accepted: boolean;
  readonly problem?: string;
}

const COLUMNS: readonly Column<Identity>[] = [
  { title: 'CLUSTER', of: ({ cluster }) => cluster },
  { title: 'USER', of: ({ user }) => user },
  { title: 'AS', of: ({ kind }) => kind },
  { title: 'PROBLEM', of: ({ problem = '' }) => problem },
];

export const whoami: Register = (program, env) => {
  const command = showCommand(program, 'whoami', 'show as whom commands act, on each cluster');
  act(command, env, async (session) => {
    // Throws if the configuration has no clusters, or not the chosen one.
    const { id } = session.config.cluster(session.chosen);
    const ids = session.chosen === undefined ? [...session.config.clusters.keys()] : [id];
    const found = await Promise.all(ids.map((each) => identify(each, session)));
    show(
      found.map(({ identity }) => identity),
      COLUMNS,
      session,
      '',
    );
    const [only] = found;
    if (session.chosen !== undefined && only?.error) throw only.error;
  });
};

async function identify(id: string, session: Session): Promise<{ identity: Identity; error?: ClientError }> {
  let known: Pick<Identity, 'user' | 'kind'> = { user: '', kind: 'nobody' };
  try {
    const cluster = await session.clusterNamed(id);
    const { kind, user = '' } = cluster.credentials;
    known = { user, kind: kind === 'basic' ? 'administrator' : 'user' };
    await cluster.call('GET', '/system/config');
    return { identity: { cluster: id, ...known, accepted: true } };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    return { identity: { cluster: id, ...known, accepted: false, problem: error.message }, error };
  }
}
