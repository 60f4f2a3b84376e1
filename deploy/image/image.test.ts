import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { archiveOf, digestOf, imageDigest, makeImage } from './image.ts';
import { tar } from './tar.ts';

const NAME = 'localhost/example:1';
const image = makeImage([tar([{ name: 'a', bytes: Buffer.from('lower') }]), tar([{ name: 'b' }])], { Cmd: ['run'] });
const archive = archiveOf({ [NAME]: image });
const fileOf = (name: string) => execFileSync('tar', ['-xO', name], { input: archive });
const json = (name: string) => JSON.parse(fileOf(name).toString());
const blob = (digest: string) => `blobs/${digest.replace(':', '/')}`;

interface Described {
  readonly digest: string;
  readonly size: number;
}

test('an OCI reader gets from the index to every layer, and all digests and sizes are true', () => {
  const { manifests } = json('index.json') as { manifests: (Described & { annotations: Record<string, string> })[] };
  const [listed] = manifests;
  assert.ok(listed);
  assert.equal(listed.digest, imageDigest(image));
  assert.equal(listed.annotations['io.containerd.image.name'], NAME);
  const manifest = json(blob(listed.digest)) as { config: Described; layers: Described[] };
  const config = json(blob(manifest.config.digest));
  assert.deepEqual(
    config.rootfs.diff_ids,
    manifest.layers.map(({ digest }) => digest),
  );
  assert.deepEqual(config.config, { Cmd: ['run'] });
  for (const { digest, size } of [listed, manifest.config, ...manifest.layers]) {
    const bytes = fileOf(blob(digest));
    assert.equal(bytes.length, size);
    assert.equal(digestOf(bytes), digest);
  }
});

test('Docker finds the same image in the list of its own', () => {
  const [listed] = json('manifest.json');
  assert.deepEqual(listed.RepoTags, [NAME]);
  assert.deepEqual(fileOf(listed.Config), Buffer.from(image.config));
  assert.deepEqual(
    listed.Layers.map((name: string) => digestOf(fileOf(name))),
    image.layers.map(digestOf),
  );
});
