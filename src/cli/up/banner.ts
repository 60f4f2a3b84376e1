import { relative } from 'node:path';
import { type Column, tableOf } from '../client/table.ts';
import { PEOPLE } from './issuer/people.ts';
import type { Plan, PlannedCluster } from './plan.ts';
import { endpointOf, storeOf } from './settings.ts';

const COLUMNS: readonly Column<PlannedCluster>[] = [
  { title: 'CLUSTER', of: ({ id }) => id },
  { title: 'MANAGER', of: endpointOf },
  { title: 'OBJECT STORE', of: storeOf },
  { title: 'CPU', of: ({ cpu }) => cpu },
  { title: 'MEMORY', of: ({ memory }) => memory },
];

/** The quickstart has a coordinator and two members. */
const QUICKSTART = 3;
const TRY = ['apply examples/quickstart.yaml', 'describe grayifyr0'];

/** What whoever has started a federation wants to know. */
export function banner(
  { clusters }: Plan,
  { issuer, directory, seconds, stays }: { issuer: string; directory: string; seconds: string; stays: boolean },
): string {
  const place = `./${relative('', directory)}`;
  const people = PEOPLE.map(({ login }) => `${login} (password ${login})`).join(', ');
  const elsewhere = place === './.oscar' ? '' : `OSCAR_CONFIG_FILE=${place}/config.yaml `;
  const commands = ['login alice --password alice', ...(clusters.length < QUICKSTART ? ['status', 'get'] : TRY)];
  const facts = `
${tableOf(clusters, COLUMNS)}

Users         ${people}, at the issuer ${issuer}
Administrator oscar, whose passwords are in ${place}/config.yaml (as oscar-cli reads it, too)
Data          ${place}, logs in ${place}/logs; minio.shared is the store of ${clusters[0]?.id}

Up after ${seconds} s.`;
  return stays ? `${facts} ${invitation(commands.map((command) => `  ${elsewhere}npx oscar ${command}`))}` : facts;
}

const invitation = (commands: readonly string[]) => `Try, in another terminal:

${commands.join('\n')}

Ctrl-C stops everything; \`oscar up\` goes on with the same data, \`oscar up --fresh\` without.
`;
