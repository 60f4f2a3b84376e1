import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { digestOf, type Image } from '../../deploy/image/image.ts';

const TYPES = {
  manifest: 'application/vnd.docker.distribution.manifest.v2+json',
  config: 'application/vnd.docker.container.image.v1+json',
  layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
};

/** Configurations are smaller: an engine reports no progress of a pull before it has them. */
const SMALL = 100_000;

/** The part of a registry that a pull needs, on loopback without TLS, which engines allow there. */
export class Registry {
  /** The requested blobs, in order. */
  readonly fetched: string[] = [];
  /** Holds large blobs back after most of their bytes, until it resolves. */
  gate: Promise<void> = Promise.resolve();
  readonly #server: Server;
  readonly #blobs = new Map<string, Uint8Array>();
  readonly #manifests = new Map<string, Uint8Array>();

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<Registry> {
    const registry = new Registry();
    await once(registry.#server.listen(0, '127.0.0.1'), 'listening');
    return registry;
  }

  /** Adds an image. Returns the name under which it can be pulled. */
  publish(name: string, { config, layers }: Image): string {
    const packed = layers.map((layer) => gzipSync(layer, { level: 0 }));
    for (const blob of [config, ...packed]) this.#blobs.set(digestOf(blob), blob);
    const described = (blob: Uint8Array, mediaType: string) => ({
      mediaType,
      size: blob.length,
      digest: digestOf(blob),
    });
    const manifest = {
      schemaVersion: 2,
      mediaType: TYPES.manifest,
      config: described(config, TYPES.config),
      layers: packed.map((layer) => described(layer, TYPES.layer)),
    };
    const bytes = Buffer.from(JSON.stringify(manifest));
    for (const reference of ['latest', digestOf(bytes)]) this.#manifests.set(`${name}/${reference}`, bytes);
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}/${name}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await once(this.#server.close(), 'close');
  }

  async #answer({ method, url = '' }: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, name, kind, reference = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(url) ?? [];
    if (url === '/v2/') return void response.end('{}');
    const found = kind === 'blobs' ? this.#blobs.get(reference) : this.#manifests.get(`${name}/${reference}`);
    if (!found) {
      const code = kind === 'blobs' ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN';
      return void response.writeHead(404).end(JSON.stringify({ errors: [{ code, message: 'unknown' }] }));
    }
    const type = kind === 'blobs' ? 'application/octet-stream' : TYPES.manifest;
    response.writeHead(200, {
      'content-type': type,
      'content-length': found.length,
      'docker-content-digest': digestOf(found),
    });
    if (method === 'HEAD' || kind === 'manifests') return void response.end(method === 'HEAD' ? undefined : found);
    this.fetched.push(reference);
    if (found.length > SMALL) await this.#trickle(found, response);
    else response.end(found);
  }

  /** Sends slowly: an engine reports progress only now and then, and only while data arrives. */
  async #trickle(bytes: Uint8Array, response: ServerResponse): Promise<void> {
    const slice = Math.ceil(bytes.length / 100);
    for (let at = 0; at < 90 * slice; at += slice) {
      response.write(bytes.subarray(at, at + slice));
      await pause(5);
    }
    await this.gate;
    response.end(bytes.subarray(90 * slice));
  }
}
