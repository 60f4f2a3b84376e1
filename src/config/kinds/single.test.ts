import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Context, Raw, SettingKind } from './kind.ts';
import * as kind from './single.ts';

const context: Context = {
  files: () => assert.fail('no file is read'),
  valueOf: () => undefined,
};

function read<T>(of: SettingKind<T>, raw: Raw): T | 'refused' {
  const parsed = of.parse(raw, context);
  return 'value' in parsed ? parsed.value : 'refused';
}

const cases: { name: string; kind: SettingKind<unknown>; accepted: [Raw, unknown][]; refused: Raw[] }[] = [
  {
    name: 'a flag is written as in Go',
    kind: kind.flag,
    accepted: [
      ...['1', 't', 'T', 'true', 'True', 'TRUE', ' true '].map((text): [Raw, unknown] => [text, true]),
      ...['0', 'f', 'F', 'false', 'False', 'FALSE'].map((text): [Raw, unknown] => [text, false]),
    ],
    refused: ['yes', 'on', 'tRUE', '2', ['true']],
  },
  {
    name: 'a number is whole, with a fraction of zeros at most',
    kind: kind.count,
    accepted: [
      ['15', 15],
      ['15.0', 15],
      ['15.00', 15],
    ],
    refused: ['0', '-1', '15.5', '15.', '1e3', '0x10', '99999999999999999999', 'many', new Map()],
  },
  {
    name: 'a port is 1 to 65535',
    kind: kind.port,
    accepted: [
      ['1', 1],
      ['65535', 65_535],
    ],
    refused: ['0', '65536'],
  },
  { name: 'a time to live may be 0', kind: kind.secondsOrNone, accepted: [['0', 0]], refused: ['-1'] },
  {
    name: 'the staging bucket has a name that no user’s bucket can have',
    kind: kind.stagingBucket,
    accepted: [
      ['oscar-staging', 'oscar-staging'],
      ['oscar-staging-2', 'oscar-staging-2'],
    ],
    refused: ['staging', 'my-oscar-staging', 'oscar-staging-', 'oscar-staging.2', `oscar-staging${'x'.repeat(51)}`],
  },
  {
    name: 'object names are a list',
    kind: kind.objectNames,
    accepted: [
      ['', []],
      ['a, b.c', ['a', 'b.c']],
      [['a'], ['a']],
    ],
    refused: ['a b', 'A', ['a/b']],
  },
  {
    name: 'CPU is a quantity',
    kind: kind.cpu,
    accepted: [
      ['2', 2000],
      ['500m', 500],
    ],
    refused: ['0', '-1', 'two'],
  },
  {
    name: 'memory is a quantity',
    kind: kind.memory,
    accepted: [
      ['512Mi', 512 * 1024 ** 2],
      ['1G', 1e9],
    ],
    refused: ['0', '4 GB'],
  },
  {
    name: 'a URL loses its last slash, and may carry neither credentials nor a query',
    kind: kind.url,
    accepted: [
      ['https://oscar.example.org/', 'https://oscar.example.org'],
      ['http://127.0.0.1:9000', 'http://127.0.0.1:9000'],
      ['https://example.org/oscar//', 'https://example.org/oscar'],
      ['https://EXAMPLE.org:443', 'https://example.org'],
    ],
    refused: ['ftp://x', 'oscar.example.org', 'https://user:word@x', 'https://x?a=b', 'https://x/#top', 'https://'],
  },
  {
    name: 'issuers are kept exactly as written',
    kind: kind.issuers,
    accepted: [
      [
        'https://a.example.org/, https://B.example.org/realms/x,',
        ['https://a.example.org/', 'https://B.example.org/realms/x'],
      ],
      [['https://a.example.org'], ['https://a.example.org']],
    ],
    refused: ['a.example.org', 'https://a.example.org, nonsense', [['https://a.example.org']]],
  },
  {
    name: 'an origin has no path',
    kind: kind.origins,
    accepted: [
      ['https://a.example.org/,http://localhost:5173', ['https://a.example.org', 'http://localhost:5173']],
      ['*', ['*']],
    ],
    refused: ['https://a.example.org/ui', 'a.example.org'],
  },
  {
    name: 'a list ignores spaces and empty items, and may be a YAML list',
    kind: kind.texts,
    accepted: [
      [' a, b ,,', ['a', 'b']],
      [
        ['a, with comma', 'b', '', null],
        ['a, with comma', 'b'],
      ],
      ['', []],
      [[], []],
    ],
    refused: [new Map(), null, [new Map()]],
  },
  {
    name: 'a choice is one of the words',
    kind: kind.oneOf('local', 'kubernetes'),
    accepted: [['local', 'local']],
    refused: ['Local', 'docker'],
  },
  {
    name: 'the name of an account has no colon',
    kind: kind.accountName,
    accepted: [['oscar', 'oscar']],
    refused: ['os:car'],
  },
  {
    name: 'a namespace is a DNS label',
    kind: kind.label,
    accepted: [['oscar-svc', 'oscar-svc']],
    refused: ['Oscar', '-x', 'x-', 'a.b', 'x'.repeat(64)],
  },
  {
    name: 'an object of Kubernetes may have dots in its name',
    kind: kind.objectName,
    accepted: [['config.yaml', 'config.yaml']],
    refused: ['config..yaml', 'Config.yaml', 'a/b'],
  },
  {
    name: 'a host has no scheme',
    kind: kind.host,
    accepted: [
      ['dav.example.org', 'dav.example.org'],
      ['dav.example.org:8443/remote.php/dav', 'dav.example.org:8443/remote.php/dav'],
    ],
    refused: ['https://dav.example.org', 'a b', 'user@host'],
  },
];

for (const { name, kind: of, accepted, refused } of cases) {
  test(`setting kinds: ${name}`, () => {
    for (const [raw, value] of accepted) assert.deepEqual(read(of, raw), value, JSON.stringify(raw));
    for (const raw of refused) assert.equal(read(of, raw), 'refused', JSON.stringify(raw));
  });
}

test('setting kinds: a secret is kept as written, including spaces', () => {
  const value = read(kind.secret, ' s3cret ');
  assert.ok(value instanceof Secret);
  assert.equal(value.reveal(), ' s3cret ');
});

test('setting kinds: an unsupported feature may be set to false, not to true', () => {
  assert.equal(read(kind.unsupportedSetting, 'false'), false);
  assert.deepEqual(kind.unsupportedSetting.parse('1', context), {
    problems: [{ path: '', text: 'is true, but that is not supported by this manager yet; accepted is `false`' }],
  });
});

test('setting kinds: a problem shows the beginning of a long value, and no credentials of a URL', () => {
  assert.match(JSON.stringify(kind.url.parse('x'.repeat(1000), context)), /is \\"x{80}…\\"; accepted/);
  assert.doesNotMatch(JSON.stringify(kind.url.parse('https://user:w@rd@host', context)), /user|w@rd/);
});
