import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { Secret } from '../../../lib/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { IssuerClient, showDeviceCode, type Tokens } from '../../client/issuer.ts';
import type { Session } from '../../client/session.ts';
import { act, clusterCommand, type Register } from '../command.ts';

interface Options {
  readonly issuer?: string;
  readonly client?: string;
  readonly password?: string | true;
  readonly passwordStdin?: boolean;
}

export const login: Register = (program, env) => {
  const command = clusterCommand(program, 'login [user]', 'log in to a cluster through its issuer')
    .option('--issuer <url>', 'the issuer, if it is not in the configuration')
    .option('--client <id>', 'client id for the login')
    .option('--password [password]', 'log in with a password if the issuer allows it; prompts if the value is omitted')
    .option('--password-stdin', 'read the password from standard input');
  act(command, env, async (session, [user]) => {
    const options = command.opts<Options>();
    const { id, entry } = session.config.cluster(session.chosen);
    const url = options.issuer ?? entry.oidc_issuer ?? (await findIssuer(session));
    const client = await IssuerClient.discover(url, options.client ?? entry.oidc_client_id ?? 'oscar');
    const tokens = await logIn(client, user, options, session);
    const others = [...session.config.clusters]
      .filter(([, { oidc_issuer }]) => oidc_issuer === url)
      .map(([each]) => each);
    const clusters = [...new Set([id, ...others])];
    const name = user ?? readUserName(tokens.accessToken);
    const kept = { issuer: url, clientId: client.clientId, ...(name !== undefined && { user: name }) };
    await session.logins.put(url, kept, tokens, clusters);
    session.terminal.note(`logged in${name ? ` as ${name}` : ''} for ${clusters.join(', ')}`);
  });
};

export const logout: Register = (program, env) => {
  act(
    clusterCommand(program, 'logout', 'remove the login of a cluster and revoke it at the issuer'),
    env,
    async (session) => {
      const { id } = session.config.cluster(session.chosen);
      const found = session.logins.at(id);
      if (!found) {
        session.terminal.note(`not logged in to ${id}: ${await describeNow(session)}`);
        return;
      }
      const token = await session.logins.remove(found.key);
      session.terminal.note(`logged out: ${await describeNow(session)}`);
      if (!token) return;
      try {
        await (await IssuerClient.discover(found.login.issuer, found.login.clientId)).revoke(token);
      } catch (error) {
        session.terminal.warn(`the login was not revoked at the issuer: ${(error as Error).message}`);
      }
    },
  );
};

/** What commands do without the login. */
async function describeNow(session: Session): Promise<string> {
  try {
    const { id, credentials } = await session.cluster();
    return credentials.kind === 'basic'
      ? `commands now act as the administrator of ${id}`
      : `commands now act as the user of the configuration's oidc_refresh_token`;
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    return 'commands need a login now';
  }
}

/** Asks the cluster for its issuers, which it tells only the administrator. */
async function findIssuer(session: Session): Promise<string> {
  const unknown = new ClientError('bad-input', 'the issuer of this cluster is unknown: name it with --issuer URL');
  let cluster: ClusterClient;
  try {
    cluster = await session.cluster();
  } catch {
    throw unknown;
  }
  const status = (await cluster.call('GET', '/system/status')).json() as { oscar?: { oidc?: { issuers?: string[] } } };
  const issuers = status.oscar?.oidc?.issuers ?? [];
  if (issuers.length === 1 && issuers[0]) return issuers[0];
  if (issuers.length === 0) throw unknown;
  throw new ClientError(
    'bad-input',
    `the cluster has several issuers: choose one with --issuer: ${issuers.join(', ')}`,
  );
}

async function logIn(
  client: IssuerClient,
  user: string | undefined,
  { password, passwordStdin }: Options,
  session: Session,
): Promise<Tokens> {
  if (password === undefined && !passwordStdin) return client.withDevice((to) => showDeviceCode(to, session.terminal));
  if (user === undefined) throw new ClientError('usage', '--password needs a user name: `oscar login USER --password`');
  if (typeof password === 'string') return client.withPassword(user, new Secret(password));
  const typed = passwordStdin ? (await textOf(process.stdin)).replace(/\r?\n$/, '') : await promptHidden('Password: ');
  return client.withPassword(user, new Secret(typed));
}

/** Prompts without echoing the input. */
async function promptHidden(question: string): Promise<string> {
  if (!process.stdin.isTTY)
    throw new ClientError('usage', 'cannot prompt for a password without a terminal: use --password-stdin');
  process.stderr.write(question);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    return await lines.question('');
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

/** The user's name in the token, for display only. The token is not verified. */
function readUserName(accessToken: Secret): string | undefined {
  try {
    const [, claims = ''] = accessToken.reveal().split('.');
    const { name, sub } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { name?: string; sub?: string };
    return name ?? sub;
  } catch {
    return undefined;
  }
}
