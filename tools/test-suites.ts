import { globSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

/** Test files that one command runs, and how. */
export interface Suite {
  /** What people type to run it. */
  readonly command: string;
  /** Globs, relative to the repository. */
  readonly files: readonly string[];
  /** Globs of files that other suites run. */
  readonly except?: readonly string[];
  /** A program that builds what the tests need, once. */
  readonly build?: string;
  /** Files at the same time; by default as many as there are cores, less one. */
  readonly concurrency?: number;
  /** How long one test may take. */
  readonly timeoutMs: number;
  /** Ends a file that leaves something open; see test/support/file-limit.ts. A long suite has files that need longer. */
  readonly fileLimit: boolean;
  /** Keeps compiled code for the next run. */
  readonly compileCache: boolean;
}

/** Campaigns that take minutes of CPU time: whole clusters under random faults and attacks, and the cost of every input. */
const CAMPAIGNS = ['test/*-chaos.test.ts', 'test/security/{input-costs,campaign,floods}.test.ts'];

/** The programs as people start them: `oscar up`, the scripts of npm, and every command of the pages. */
const PROGRAMS = ['test/cli/{up,npm,docs}.test.ts'];

/** Tests of the page in a browser. */
const PAGE = ['test/page/**/*.test.ts'];

/** What needs npm packages only, and is fast enough for every change. */
export const PLAIN: Suite = {
  command: 'npm test',
  files: ['src/**/*.test.ts', 'test/**/*.test.ts', 'tools/**/*.test.ts', 'deploy/**/*.test.ts', 'web/**/*.test.ts'],
  except: [...CAMPAIGNS, ...PROGRAMS, ...PAGE],
  concurrency: 3,
  timeoutMs: Number(process.env['OSCAR_TEST_TIMEOUT'] || 600_000),
  fileLimit: true,
  compileCache: true,
};

export const SUITES: ReadonlyMap<string, Suite> = new Map<string, Suite>([
  ['plain', PLAIN],
  ['campaigns', { ...PLAIN, command: 'npm run test:campaigns', files: CAMPAIGNS, except: [] }],
  ['programs', { ...PLAIN, command: 'npm run test:programs', files: PROGRAMS, except: [] }],
  ['page', { ...PLAIN, command: 'npm run test:page', files: PAGE, except: [] }],
  [
    'kubernetes',
    {
      command: 'npm run test:kubernetes',
      build: 'test/kubernetes/build.ts',
      files: ['test/kubernetes/*.{kubernetes,pods}.ts'],
      concurrency: 3,
      timeoutMs: 300_000,
      fileLimit: true,
      compileCache: true,
    },
  ],
  [
    'kubernetes:long',
    {
      command: 'npm run test:kubernetes:long',
      build: 'test/kubernetes/build.ts',
      files: ['test/kubernetes/*.long.ts'],
      concurrency: 1,
      timeoutMs: 900_000,
      fileLimit: false,
      compileCache: false,
    },
  ],
  [
    'minio',
    {
      command: 'npm run test:minio',
      build: 'test/minio/build.ts',
      files: ['test/minio/*.minio.ts'],
      concurrency: 2,
      timeoutMs: 180_000,
      fileLimit: true,
      compileCache: false,
    },
  ],
  [
    'clients',
    {
      command: 'npm run test:clients',
      files: ['test/clients/*.clients.ts'],
      timeoutMs: 300_000,
      fileLimit: true,
      compileCache: false,
    },
  ],
  [
    'docker',
    {
      command: 'npm run test:docker',
      build: 'test/docker/build.ts',
      files: ['test/docker/*.docker.ts'],
      timeoutMs: 180_000,
      fileLimit: true,
      compileCache: false,
    },
  ],
]);

const FILE_LIMIT = join(import.meta.dirname, '../test/support/file-limit.ts');

/** What makes Node run tests in this way; the files follow. */
export function testOptions({
  fileLimit,
  concurrency,
  timeoutMs,
}: Pick<Suite, 'fileLimit' | 'concurrency' | 'timeoutMs'>): string[] {
  return [
    ...(fileLimit ? ['--import', FILE_LIMIT] : []),
    '--test',
    ...(concurrency === undefined ? [] : [`--test-concurrency=${concurrency}`]),
    `--test-timeout=${timeoutMs}`,
    '--test-reporter=spec',
  ];
}

/**
 * The files of a suite that match at least one of these patterns, each the path of a file or folder or a part of a path.
 * Throws when one of them matches nothing: a misspelt pattern would otherwise run no test and succeed.
 */
export function matchingFiles(suite: Suite, patterns: readonly string[], root: string): string[] {
  const files = filesOf(suite, root);
  const found = patterns.flatMap((pattern) => {
    const matching = files.filter(matcher(pattern, root));
    if (matching.length === 0) throw new Error(nothingMatches(pattern, root));
    return matching;
  });
  return [...new Set(found)].toSorted();
}

export const filesOf = ({ files, except = [] }: Suite, root: string): string[] =>
  globSync(files, { cwd: root, exclude: except });

function matcher(pattern: string, root: string): (file: string) => boolean {
  const path = relative(root, resolve(root, pattern));
  const stat = statSync(join(root, path), { throwIfNoEntry: false });
  if (stat?.isDirectory()) return (file) => file.startsWith(path === '' ? '' : `${path}/`);
  return stat ? (file) => file === path : (file) => file.includes(pattern);
}

function nothingMatches(pattern: string, root: string): string {
  const elsewhere = [...SUITES.values()].find((suite) => filesOf(suite, root).some(matcher(pattern, root)));
  return elsewhere
    ? `${pattern} is tested by another command: ${elsewhere.command} -- ${pattern}`
    : `no test file matches ${pattern}: give a path, a folder, or a part of a path`;
}
