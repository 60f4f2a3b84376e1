import { text as textOf } from 'node:stream/consumers';
import type { ClusterEntry } from '../../client/config-file.ts';
import { ClientError } from '../../client/errors.ts';
import { show } from '../../client/table.ts';
import { act, formatOption, plainCommand, type Register, required } from '../command.ts';

interface AddOptions {
  readonly user?: string;
  readonly passwordStdin?: boolean;
  readonly issuer?: string;
  readonly client?: string;
  readonly verify: boolean;
}

export const clustersVerb: Register = (program, env) => {
  const group = program.command('clusters').description('manage the clusters of your configuration');

  const add = plainCommand(group, 'add <id> <url>', 'add or change a cluster')
    .option('--user <name>', 'user name of the administrator')
    .option('--password-stdin', 'read the administrator’s password from standard input')
    .option('--issuer <url>', 'issuer where its users log in')
    .option('--client <id>', 'client id for the login')
    .option('--no-verify', 'do not verify its certificate');
  act(add, env, async (session, [id, url]) => {
    const options = add.opts<AddOptions>();
    const endpoint = required(url).replace(/\/+$/, '');
    if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
      throw new ClientError('bad-input', `"${url}" must be an http or https URL`);
    }
    const password = options.passwordStdin ? (await textOf(process.stdin)).replace(/\r?\n$/, '') : undefined;
    if ((options.user === undefined) !== (password === undefined)) {
      throw new ClientError('usage', 'an administrator needs both --user and --password-stdin');
    }
    const entry: ClusterEntry = {
      endpoint,
      ...(options.user !== undefined && password !== undefined && { auth_user: options.user, auth_password: password }),
      ...(options.issuer !== undefined && { oidc_issuer: options.issuer }),
      ...(options.client !== undefined && { oidc_client_id: options.client }),
      ssl_verify: options.verify,
    };
    session.config.add(required(id), entry);
    session.terminal.note(`${id} saved in ${session.config.path}`);
  });

  act(plainCommand(group, 'list', 'list the clusters').addOption(formatOption()), env, (session) => {
    const { config, logins } = session;
    const rows = [...config.clusters].map(([id, entry]) => ({
      id,
      endpoint: entry.endpoint,
      user: logins.at(id)?.login.user ?? (entry.auth_user ? `${entry.auth_user} (administrator)` : ''),
      default: id === config.default,
      issuer: entry.oidc_issuer ?? '',
      ssl_verify: entry.ssl_verify,
    }));
    const columns = [
      { title: 'CLUSTER', of: (row: (typeof rows)[number]) => row.id },
      { title: 'ENDPOINT', of: (row: (typeof rows)[number]) => row.endpoint },
      { title: 'AS', of: (row: (typeof rows)[number]) => row.user },
      { title: 'DEFAULT', of: (row: (typeof rows)[number]) => (row.default ? '*' : '') },
      { title: 'ISSUER', of: (row: (typeof rows)[number]) => row.issuer, wide: true as const },
      { title: 'VERIFIED', of: (row: (typeof rows)[number]) => (row.ssl_verify ? 'yes' : 'no'), wide: true as const },
    ];
    show(rows, columns, session, `${config.path} has no clusters: add one with \`oscar clusters add ID URL\``);
  });

  act(plainCommand(group, 'default [id]', 'show or set the default cluster'), env, (session, [id]) => {
    if (id !== undefined) session.config.setDefault(id);
    else session.terminal.print(session.config.cluster(undefined).id);
  });

  act(
    plainCommand(group, 'remove <id>', 'remove a cluster from the configuration; the cluster itself is not changed'),
    env,
    (session, [id]) => {
      session.config.remove(required(id));
    },
  );
};
