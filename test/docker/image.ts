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
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** From uncompressed archives. The same content has the same id. */
export function makeImage(layers: readonly Uint8Array[], settings: ImageSettings): Image {
  const config = {
    architecture: ARCHITECTURES[arch] ?? arch,
    os: 'linux',
    created: '1970-01-01T00:00:00Z',
    config: settings,
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => digestOf(layer)) },
    history: layers.map(() => ({ created: '1970-01-01T00:00:00Z', created_by: 'test/docker' })),
  };
  return { layers, config: Buffer.from(JSON.stringify(config)) };
}

/** What `docker load` reads. */
export function archiveOf(images: Readonly<Record<string, Image>>): Buffer {
  const files = new Map<string, Uint8Array>();
  const manifest = Object.entries(images).map(([tag, { config, layers }]) => {
    const configFile = `${nameOf(config)}.json`;
    files.set(configFile, config);
    const layerFiles = layers.map((layer) => `${nameOf(layer)}.tar`);
    for (const [index, layer] of layers.entries()) files.set(layerFiles[index] ?? '', layer);
    return { Config: configFile, RepoTags: [tag], Layers: layerFiles };
  });
  files.set('manifest.json', Buffer.from(JSON.stringify(manifest)));
  return tar([...files].map(([name, bytes]) => ({ name, bytes })));
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

const nameOf = (bytes: Uint8Array) => digestOf(bytes).slice('sha256:'.length);
