import { type Call, type Connection, connect } from './connection.ts';
import { type ManagerProcess, startManagerProcess } from './manager-process.ts';
import { creating } from './services.ts';
import { type SlowLink, type SlowLinkOptions, startSlowLink } from './slow-link.ts';
import type { BenchUser } from './user.ts';

/** Members are on this many managers, under as many ids of clusters as there are members: each is dialled on its own. */
const MANAGERS = 2;

/** The managers of the members, each behind a link. */
export interface Members extends AsyncDisposable {
  readonly links: readonly SlowLink[];
  /** Another way to one of them. */
  linkTo(manager: number, options: SlowLinkOptions): Promise<SlowLink>;
}

const NETWORKS = { OSCAR_PEER_NETWORKS: '127.0.0.0/8' };

export async function startMembers(user: BenchUser, options: SlowLinkOptions): Promise<Members> {
  const managers = await Promise.all(Array.from({ length: MANAGERS }, () => startCoordinator(user)));
  const extra: SlowLink[] = [];
  const linkTo: Members['linkTo'] = async (manager, more) => {
    const { url } = managers[manager % MANAGERS] ?? {};
    if (url === undefined) throw new Error('there is no such manager');
    const link = await startSlowLink(url, more);
    extra.push(link);
    return link;
  };
  const links = await Promise.all(managers.map((_, index) => linkTo(index, options)));
  return {
    links,
    linkTo,
    async [Symbol.asyncDispose]() {
      for (const link of extra) await link[Symbol.asyncDispose]();
      for (const manager of managers) await manager[Symbol.asyncDispose]();
    },
  };
}

export const startCoordinator = ({ settings }: BenchUser): Promise<ManagerProcess> =>
  startManagerProcess({ settings: { ...settings, ...NETWORKS } });

export interface Wanted {
  readonly name: string;
  readonly members: number;
  /** Ids of clusters begin with it: other ids are other connections. */
  readonly clusters: string;
  readonly links: readonly SlowLink[];
  readonly deployment?: 'best-effort';
}

/** The create of a federation: the service of the other benchmarks, with members. */
export function creatingFederation({ name, members, clusters, links, deployment }: Wanted): Call {
  const { method, path, body } = creating(name);
  const definition = JSON.parse(body);
  const ids = Array.from({ length: members }, (_, index) => `${clusters}-${index}`);
  const whole = {
    ...definition,
    environment: { ...definition.environment, secrets: { refresh_token: 'a-token-that-nobody-uses' } },
    federation: {
      topology: 'star',
      members: ids.map((cluster_id, index) => ({ cluster_id, service_name: `${name}-${index}` })),
      ...(deployment && { deployment }),
    },
    clusters: Object.fromEntries(
      ids.map((id, index) => [id, { endpoint: links[index % links.length]?.url, ssl_verify: false }]),
    ),
  };
  return { method, path, body: JSON.stringify(whole) };
}

export const removingFederation = (name: string): Call => ({
  method: 'DELETE',
  path: `/system/services/${name}`,
  body: '',
});

/** Makes a federation and removes it; the milliseconds of both. */
export async function comeAndGo(connection: Connection, wanted: Wanted): Promise<{ made: number; removed: number }> {
  const made = await connection.call(creatingFederation(wanted));
  return { made, removed: await connection.call(removingFederation(wanted.name)) };
}

/** Milliseconds until a federation that cannot be made is refused with this status. */
export async function refused(url: string, as: string, wanted: Wanted, status: number): Promise<number> {
  using connection = connect(url, as);
  const begun = performance.now();
  const made = await connection.call(creatingFederation(wanted)).then(
    () => 'was made',
    (error: Error) => error.message,
  );
  if (!made.includes(`with ${status} `)) throw new Error(`the federation was to be refused with ${status}: ${made}`);
  return performance.now() - begun;
}
