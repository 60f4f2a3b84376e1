import { createHash } from 'node:crypto';
import { arch } from 'node:process';
import { tar } from './tar.ts';

/** An image: its file systems one over the other, and how it is run. */
export interface Image {
  readonly layers: readonly Uint8Array[];
  readonly config: Uint8Array;
}

export interface ImageSettings {
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
  readonly Env?: readonly string[];
  readonly User?: string;
  readonly WorkingDir?: string;
  readonly ExposedPorts?: Readonly<Record<string, object>>;
  readonly Labels?: Readonly<Record<string, string>>;
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const OCI = 'application/vnd.oci.image';

/** From uncompressed archives. The same content has the same id. */
export function makeImage(layers: readonly Uint8Array[], settings: ImageSettings): Image {
  const config = {
    architecture: ARCHITECTURES[arch] ?? arch,
    os: 'linux',
    created: '1970-01-01T00:00:00Z',
    config: settings,
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => digestOf(layer)) },
    history: layers.map(() => ({ created: '1970-01-01T00:00:00Z', created_by: 'oscar-manager' })),
  };
  return { layers, config: Buffer.from(JSON.stringify(config)) };
}

/** What `docker load`, `podman load` and `ctr images import` read: an OCI layout, with Docker's own list beside it. */
export function archiveOf(images: Readonly<Record<string, Image>>): Buffer {
  const files = new Map<string, Uint8Array>([['oci-layout', json({ imageLayoutVersion: '1.0.0' })]]);
  const keep = (bytes: Uint8Array) => {
    const path = `blobs/sha256/${digestOf(bytes).slice('sha256:'.length)}`;
    files.set(path, bytes);
    return path;
  };
  const named = Object.entries(images).map(([name, image]) => ({ name, image, manifest: manifestOf(image) }));
  files.set('index.json', json({ schemaVersion: 2, manifests: named.map(indexEntry) }));
  const list = named.map(({ name, image, manifest }) => {
    keep(manifest);
    return { Config: keep(image.config), RepoTags: [name], Layers: image.layers.map(keep) };
  });
  files.set('manifest.json', json(list));
  return tar([{ name: 'blobs/' }, { name: 'blobs/sha256/' }, ...[...files].map(([name, bytes]) => ({ name, bytes }))]);
}

/** By which a cluster can pin the image. */
export const imageDigest = (image: Image) => digestOf(manifestOf(image));

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function manifestOf({ layers, config }: Image): Buffer {
  return json({
    schemaVersion: 2,
    mediaType: `${OCI}.manifest.v1+json`,
    config: described(`${OCI}.config.v1+json`, config),
    layers: layers.map((layer) => described(`${OCI}.layer.v1.tar`, layer)),
  });
}

/** Each program that reads archives looks for the name in a place of its own. */
function indexEntry({ name, manifest }: { name: string; manifest: Uint8Array }) {
  const annotations = {
    'io.containerd.image.name': name,
    'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
  };
  return { ...described(`${OCI}.manifest.v1+json`, manifest), annotations };
}

const described = (mediaType: string, bytes: Uint8Array) => ({
  mediaType,
  digest: digestOf(bytes),
  size: bytes.length,
});

const json = (value: unknown) => Buffer.from(JSON.stringify(value));
