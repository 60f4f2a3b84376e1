import type { Setting } from '../src/config/groups/setting.ts';
import { CLUSTER_FIELDS } from '../src/config/kinds/clusters.ts';
import type { SettingFields } from '../src/config/kinds/kind.ts';
import { PROVIDER_FIELDS } from '../src/config/kinds/providers.ts';
import { IGNORED } from '../src/config/read-config.ts';
import { SETTING_GROUPS } from '../src/config/settings.ts';

/** `docs/configuration.md`, from the tables that the manager reads its settings with. */
export function renderConfiguration(): string {
  const groups = SETTING_GROUPS.map(
    ({ title, settings }) => `## ${title}\n\n${settingsTable(Object.values(settings))}`,
  );
  return `${[INTRODUCTION, ...groups, clustersSection(), providersSection(), ignoredSection()].join('\n\n')}\n`;
}

const INTRODUCTION = `<!-- Made by tools/generate-docs.ts from src/config; changes made here are lost. -->

# Configuration

The manager is configured by environment variables, by a file, or by both. On a laptop nothing has to be set.

- **File.** \`OSCAR_CONFIG\` names a YAML file whose keys are the names of the variables. Lists may be written as YAML
  lists, maps as YAML maps. A key that is not a setting is an error.
- **The environment wins** over the file. An empty variable counts as unset.
- **Mistakes stop the start.** The message names all of them, each with the variable, its value and what is accepted.
- **Secrets** are passwords, keys and client secrets. They are never logged or shown. Give them as variables from a
  Secret of Kubernetes, or in a file that only the manager may read.
- \`true\` and \`false\` may also be written \`1\`, \`t\`, \`T\`, \`TRUE\`, \`True\` and
  \`0\`, \`f\`, \`F\`, \`FALSE\`, \`False\`.
  Lists are separated by commas. Times are in seconds. Names of files are relative to the directory the manager is
  started in.

\`\`\`yaml
# oscar.yaml, used with OSCAR_CONFIG=oscar.yaml
OSCAR_CLUSTER_ID: oscar-cluster-a
OSCAR_ENDPOINT: https://oscar-a.example.org
OSCAR_SERVICE_PORT: 8080
OIDC_ENABLE: true
OIDC_ISSUERS:
  - https://aai.example.org/realms/science
OIDC_GROUPS: [vo.example.org, /oscar-staff]
OSCAR_LOCAL_CPU: 4
OSCAR_LOCAL_MEMORY: 8Gi
OSCAR_CLUSTERS:
  oscar-cluster-b:
    endpoint: https://oscar-b.example.org
\`\`\``;

function clustersSection(): string {
  return `## Clusters

\`OSCAR_CLUSTERS\` is a map from cluster ids to what is known about each cluster, or the name of a YAML file
with that map.

${fieldsTable(CLUSTER_FIELDS)}

\`\`\`yaml
OSCAR_CLUSTERS:
  oscar-cluster-b:
    endpoint: https://oscar-b.example.org
    store: https://minio-b.example.org
  oscar-cluster-c:
    endpoint: https://oscar-c.example.org
    kind: upstream
\`\`\``;
}

function providersSection(): string {
  const tables = Object.entries(PROVIDER_FIELDS).map(([type, fields]) => `\`${type}.<id>\`:\n\n${fieldsTable(fields)}`);
  return `## Storage providers

\`OSCAR_STORAGE_PROVIDERS\` is a map from \`<type>.<id>\` to the keys of a store, or the name of a YAML file
with that map. A definition uses it as \`storage_provider: minio.shared\`; the keys never leave the manager.
\`minio.default\` is always the store of this cluster.

The manager makes the buckets of outputs there ([FDL](fdl.md#providers-and-their-keys)), so the keys must be allowed to list,
make and remove buckets and to read and write their tags (\`s3:ListBucket\`, \`s3:CreateBucket\`, \`s3:DeleteBucket\`,
\`s3:GetBucketTagging\`, \`s3:PutBucketTagging\`), beside reading and writing objects. With keys that may list and write
only, make the buckets yourself. Every user may write to every bucket there that no other user's service has made: name a
store that is meant for that, not the store of a cluster.

${tables.join('\n\n')}

\`\`\`yaml
OSCAR_STORAGE_PROVIDERS:
  minio.shared:
    endpoint: https://minio.example.org
    access_key: oscar
    secret_key: change-me
\`\`\``;
}

function ignoredSection(): string {
  const rows = IGNORED.map(({ names, why }) => [names.map(code).join(', '), why]);
  return `## Read by the Go manager, ignored here

These may stay where they are; they change nothing.

${table(['Variables', 'Why'], rows)}`;
}

function settingsTable(settings: readonly Setting[]): string {
  const rows = settings.map((setting) => [
    code(setting.name),
    setting.meaning,
    sentence(setting.kind.accepts),
    defaultOf(setting),
  ]);
  return table(['Variable', 'Meaning', 'Accepted', 'Default'], rows);
}

function fieldsTable(fields: SettingFields): string {
  const rows = Object.values(fields).map((field) => [
    code(field.name),
    field.meaning,
    sentence(field.kind.accepts),
    field.required ? 'required' : written(field.default) || 'none',
  ]);
  return table(['Key', 'Meaning', 'Accepted', 'Default'], rows);
}

function defaultOf({ default: value, unset = '' }: Setting): string {
  if (typeof value !== 'object') return written(value) || unset;
  return Object.entries(value)
    .map(([backend, text]) => `${backend}: ${written(text)}`)
    .join('; ');
}

function written(value: string | undefined): string {
  if (value === undefined) return '';
  return value === '' || value === '{}' ? 'empty' : code(value);
}

const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const code = (text: string) => `\`${text}\``;
const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
