import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { ANA, startStore, type TestStore } from './start-store.ts';

/**
 * boto3 and the aws command, installed once into an environment in the temporary directory. If that is not possible,
 * the tests are skipped with a message.
 */

const run = promisify(execFile);

const ENVIRONMENT = process.env['OSCAR_TEST_VENV'] ?? join(tmpdir(), 'oscar-test-boto3');
const INSTALL_TIMEOUT = 180_000;

async function install(): Promise<string | undefined> {
  const done = join(ENVIRONMENT, 'installed');
  if (existsSync(done)) return undefined;
  try {
    await run('python3', ['-m', 'venv', ENVIRONMENT], { timeout: INSTALL_TIMEOUT });
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', 'boto3', 'awscli'];
    await run(join(ENVIRONMENT, 'bin', 'python'), pip, { timeout: INSTALL_TIMEOUT });
    mkdirSync(done);
    return undefined;
  } catch (error) {
    return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
  }
}

const missing = await install();

function clientTest(name: string, work: (store: TestStore) => Promise<void>): void {
  test(name, async (t: TestContext) => {
    if (missing !== undefined) {
      t.diagnostic(`NOT TESTED with boto3 and the aws command, which cannot be installed here: ${missing}`);
      t.skip(`NOT TESTED: boto3 and the aws command cannot be installed here (${missing})`);
      return;
    }
    await using store = await startStore();
    await work(store);
    assert.deepEqual(store.reported, []);
  });
}

const environment = (store: TestStore) => ({
  PATH: process.env['PATH'] ?? '',
  HOME: ENVIRONMENT,
  AWS_ACCESS_KEY_ID: ANA.accessKey,
  AWS_SECRET_ACCESS_KEY: ANA.secret.reveal(),
  AWS_DEFAULT_REGION: 'us-east-1',
  AWS_EC2_METADATA_DISABLED: 'true',
  AWS_ENDPOINT_URL: store.endpoint,
});

async function python(store: TestStore, script: string): Promise<string> {
  const { stdout } = await run(join(ENVIRONMENT, 'bin', 'python'), ['-c', script], { env: environment(store) });
  return stdout;
}

async function aws(store: TestStore, ...args: string[]): Promise<string> {
  const { stdout } = await run(join(ENVIRONMENT, 'bin', 'aws'), args, { env: environment(store), cwd: ENVIRONMENT });
  return stdout;
}

clientTest('boto3: it puts, gets, lists, copies, uploads in parts, presigns and deletes', async (store) => {
  const out = await python(
    store,
    `
import boto3, io, os, urllib.request
from botocore.config import Config
s3 = boto3.client('s3', config=Config(s3={'addressing_style': 'path'}))
s3.create_bucket(Bucket='photos')
key = 'in/ünï code+1 &=.txt'
s3.put_object(Bucket='photos', Key=key, Body=b'hello', Metadata={'a': '1'}, ContentType='text/plain')
got = s3.get_object(Bucket='photos', Key=key)
assert got['Body'].read() == b'hello' and got['Metadata'] == {'a': '1'}
big = os.urandom(20 * 1024 * 1024)
s3.upload_fileobj(io.BytesIO(big), 'photos', 'big')
copy = io.BytesIO()
s3.download_fileobj('photos', 'big', copy)
assert copy.getvalue() == big
s3.copy({'Bucket': 'photos', 'Key': 'big'}, 'photos', 'copied')
assert s3.head_object(Bucket='photos', Key='copied')['ContentLength'] == len(big)
assert [o['Key'] for p in s3.get_paginator('list_objects_v2').paginate(Bucket='photos') for o in p['Contents']] == ['big', 'copied', key]
assert [o['Key'] for p in s3.get_paginator('list_objects').paginate(Bucket='photos', Prefix='in/') for o in p['Contents']] == [key]
for version in ['s3', 's3v4', None]:
    signer = boto3.client('s3', config=Config(signature_version=version, s3={'addressing_style': 'path'}))
    url = signer.generate_presigned_url('get_object', Params={'Bucket': 'photos', 'Key': key}, ExpiresIn=60)
    assert urllib.request.urlopen(url).read() == b'hello', version
    url = signer.generate_presigned_url('put_object', Params={'Bucket': 'photos', 'Key': 'presigned'}, ExpiresIn=60)
    request = urllib.request.Request(url, data=b'up', method='PUT', headers={'Content-Type': ''})
    assert urllib.request.urlopen(request).status == 200, version
try:
    s3.get_object(Bucket='photos', Key='missing')
except s3.exceptions.NoSuchKey:
    print('missing')
s3.delete_objects(Bucket='photos', Delete={'Objects': [{'Key': k} for k in ['big', 'copied', 'presigned', key]]})
s3.delete_bucket(Bucket='photos')
print('done')
`,
  );
  assert.equal(out, 'missing\ndone\n');
});

clientTest('boto3: it gets temporary keys from STS', async (store) => {
  const out = await python(
    store,
    `
import boto3, json
policy = json.dumps({'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': ['s3:GetObject'], 'Resource': ['arn:aws:s3:::photos/in/*']}]})
boto3.client('s3').create_bucket(Bucket='photos')
boto3.client('s3').put_object(Bucket='photos', Key='in/a', Body=b'x')
c = boto3.client('sts').assume_role(RoleArn='arn:aws:iam::0:role/xx', RoleSessionName='xx', DurationSeconds=900, Policy=policy)['Credentials']
s3 = boto3.client('s3', aws_access_key_id=c['AccessKeyId'], aws_secret_access_key=c['SecretAccessKey'], aws_session_token=c['SessionToken'])
print(s3.get_object(Bucket='photos', Key='in/a')['Body'].read().decode())
try:
    s3.put_object(Bucket='photos', Key='in/a', Body=b'y')
except Exception as e:
    print(e.response['Error']['Code'])
`,
  );
  assert.equal(out, 'x\nAccessDenied\n');
});

clientTest(
  'aws command: it creates a bucket, copies files in both directions, syncs, presigns and removes',
  async (store) => {
    const file = process.execPath;
    await aws(store, 's3', 'mb', 's3://photos');
    await aws(store, 's3', 'cp', '--quiet', file, 's3://photos/in/node');
    await aws(store, 's3', 'cp', '--quiet', 's3://photos/in/node', 's3://photos/out/node');
    await aws(store, 's3', 'cp', '--quiet', 's3://photos/out/node', join(ENVIRONMENT, 'node-copy'));
    await run('cmp', [file, join(ENVIRONMENT, 'node-copy')]);
    assert.match(await aws(store, 's3', 'ls', 's3://photos/'), /PRE in\/\n.*PRE out\//);
    const url = (await aws(store, 's3', 'presign', 's3://photos/in/node')).trim();
    const answer = await fetch(url, { headers: { range: 'bytes=0-3' } });
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), Buffer.from('\x7fELF'));
    await aws(store, 's3', 'rm', '--quiet', '--recursive', 's3://photos');
    await aws(store, 's3', 'rb', 's3://photos');
    assert.equal(store.store.describeBucket('photos'), undefined);
  },
);
