import { isDeepStrictEqual } from 'node:util';
import { lowerCased } from './compare.ts';
import { countsOf } from './counts.ts';
import { type Difference, type Explanation, explanationsOf, type Kind } from './differences/difference.ts';
import { DIFFERENCES } from './differences.ts';
import { type Exchange, readExchanges } from './exchanges.ts';

/** `docs/compatibility.md`, from the table of differences and the recorded exchanges. */
export function renderCompatibility(): string {
  const exchanges = readExchanges();
  const chapters = CHAPTERS.map((chapter) => renderChapter(chapter, exchanges));
  return `${[introduction(exchanges), areasTable(exchanges), LIMITS, PODS, ...chapters].join('\n\n')}\n`;
}

interface Chapter {
  readonly kind: Kind;
  readonly title: string;
  readonly text: string;
}

const CHAPTERS: readonly Chapter[] = [
  {
    kind: 'defect',
    title: 'Faults that are not copied',
    text: 'Here the Go manager is wrong, and some of its answers are dangerous.',
  },
  {
    kind: 'decision',
    title: 'Decided otherwise',
    text: 'Here both answers could be right, and another one was chosen.',
  },
  {
    kind: 'later',
    title: 'Not there yet',
    text: 'This comes later. Until then a route is 404, and a definition that needs it is refused with 400.',
  },
];

function introduction(exchanges: readonly Exchange[]): string {
  const { identical, defect, decision, later } = countsOf(exchanges, DIFFERENCES);
  return `<!-- Made by tools/generate-docs.ts from test/compatibility; changes made here are lost. -->

# Compatibility with the Go manager

This manager takes the place of the OSCAR manager that is written in Go, and its clients should not notice. What is there
already has the same routes, reads the same definitions, takes the same credentials and writes the same JSON, key by key
and in the same order. This page says where its answers are others.

**How this is known.** ${exchanges.length} requests to the Go manager (revision \`7ade09ee\`, after version 4.1.2) and its
answers were recorded in \`test/compatibility/exchanges.jsonl\`. With every run of the tests they are sent to this manager
in the same order, and each answer is compared: its status, the headers Content-Type, Location, WWW-Authenticate and
Set-Cookie, and the body of a success byte for byte. Tokens, keys, times and addresses are masked in both. Of a failure
the kind of body is compared, not its words: those are written anew here, to say what was wrong and what to do.

**Nothing differs without a reason.** Every answer that is not the recorded one must be explained by exactly one entry
below, and be what that entry says; an entry that explains nothing any more must go. Otherwise the tests fail.

| Answers | Exchanges |
| --- | --- |
| the same | ${identical} |
| another one, since the Go manager is at fault | ${defect} |
| another one, by decision | ${decision} |
| not there yet | ${later} |`;
}

/** The areas of the interface, by the beginning of their paths; what is in none of them is in the last. */
const AREAS = [
  '/system/services',
  '/system/federation',
  '/system/info',
  '/system/config',
  '/job',
  '/system/logs',
  '/system/buckets',
  '/system/status',
  '/system/metrics',
  '/system/volumes',
  '/system/quotas',
];
const ELSEWHERE = 'Health, page, redirects, unknown routes';

const areaOf = ({ request }: Exchange) => AREAS.find((area) => request.path.startsWith(area)) ?? ELSEWHERE;

function areasTable(exchanges: readonly Exchange[]): string {
  const rows = [...AREAS, ELSEWHERE].map((area) => {
    const here = exchanges.filter((exchange) => areaOf(exchange) === area);
    const { identical, defect, decision, later } = countsOf(here, DIFFERENCES);
    const name = area === ELSEWHERE ? area : `\`${area}\``;
    return `| ${[name, identical, defect, decision, later].join(' | ')} |`;
  });
  return ['| Area | The same | Faults | Decisions | Later |', '| --- | --- | --- | --- | --- |', ...rows].join('\n');
}

const LIMITS = `**What the recording does not have.** No containers ran in it: pods, their logs and the use of nodes were simulated, and
the members of federations were the same manager. \`/run\`, Knative, KServe, Kueue, YuniKorn, interLink, GPUs, routes of a
Gateway, TLS, several issuers, and a store or a Kubernetes that cannot be reached are not in it.`;

const PODS = `**What no answer shows: Jobs and pods.** Names, labels, annotations and the variables of a script are as the Go manager has
them, except for these:

- \`oscar_rescheduler\` is on nothing. By that label a Go manager finds pending pods, gives their event to another cluster and
  deletes their Job: on pods of this manager, of which it knows nothing else, a job would run twice. Here the record of a job
  says how long it has waited.
- Of \`/oscar/config\` there is \`script.sh\` and no \`function_config.yaml\`, and there is neither \`/oscar/bin\` nor
  \`/var/run/secrets/providers\`. The ConfigMap cannot be mounted as it is: one that a Go manager has written holds keys of
  stores in clear, and no script sees keys here; it changes while a job runs, and goes with its service, where a pod that waits
  for it would never start. A script has what it needs of its definition in variables: \`OSCAR_SERVICE_NAME\`,
  \`OSCAR_SERVICE_TOKEN\`, those under \`environment\`, and of its job \`JOB_UUID\`, \`EVENT\` and the paths. One that reads more
  of it should be given that as a variable.`;

function renderChapter({ kind, title, text }: Chapter, exchanges: readonly Exchange[]): string {
  const entries = DIFFERENCES.filter((difference) => difference.kind === kind);
  return [`## ${title}`, text, ...entries.map((entry) => renderDifference(entry, exchanges))].join('\n\n');
}

function renderDifference(difference: Difference, exchanges: readonly Exchange[]): string {
  const explanations = explanationsOf([difference], exchanges);
  const number = explanations.length === 1 ? 'one exchange' : `${explanations.length} exchanges`;
  return `### ${difference.title}\n\n${difference.reason}\n\nSeen in ${number}: ${requestsOf(explanations)}.`;
}

const MOST_REQUESTS = 6;

/** `GET /system/services/{name}` (403 → 404), each request once, the first few of them. */
function requestsOf(explanations: readonly Explanation[]): string {
  const statuses = Map.groupBy(explanations, ({ exchange }) => requestOf(exchange));
  const requests = [...statuses].map(([request, group]) => `\`${request}\` (${changesOf(group)})`);
  const shown = requests.slice(0, MOST_REQUESTS);
  const more = requests.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

const MOST_CHANGES = 3;

function changesOf(explanations: readonly Explanation[]): string {
  const changes = new Set(
    explanations.map(({ exchange: { response }, ours }) => {
      const { status, headers } = ours(response);
      if (status !== response.status) return `${response.status} → ${status}`;
      const sameHeaders = isDeepStrictEqual(headers, lowerCased(response.headers));
      return `${status}, other ${sameHeaders ? 'body' : 'headers'}`;
    }),
  );
  const shown = [...changes].slice(0, MOST_CHANGES);
  return [...shown, ...(changes.size > shown.length ? ['…'] : [])].join('; ');
}

const VARIABLE_PARTS: readonly (readonly [RegExp, string])[] = [
  [/^(\/job|\/run|\/system\/(?:services|federation|replicas|logs))\/[^/]+/, '$1/{name}'],
  [/^(\/system\/logs\/\{name\})\/[^/]+/, '$1/{job}'],
  [/^(\/system\/metrics)\/(?!breakdown)[^/]+/, '$1/{name}'],
  [/^(\/system\/buckets)\/[^/]+/, '$1/{bucket}'],
  [/^(\/system\/volumes)\/[^/]+/, '$1/{volume}'],
  [/^(\/system\/quotas\/user)\/[^/]+/, '$1/{user}'],
];

function requestOf({ request }: Exchange): string {
  const path = (request.path.split('?')[0] ?? '').replace(/(?<!\/ui)\/$/, '');
  const general = VARIABLE_PARTS.reduce((text, [pattern, name]) => text.replace(pattern, name), path);
  return `${request.method} ${general}`;
}
