import type { Version } from '../../../lib/version.ts';
import { type SettingsRecord, type SettingsStore, type StoredSettings, StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { CONFIG_MAP, type ConfigMap, type Stored } from '../client/kinds.ts';
import { createObject, replaceObject } from '../client/writes.ts';

/**
 * The key of the list of repositories, as a Go manager reads and writes it
 * (docs/go-manager.md#configuration-and-status).
 */
const REPOSITORIES = 'allowed_image_repositories';

/** Stores the settings in one ConfigMap in the manager's namespace, which may have other keys too. */
export class KubernetesSettingsStore implements SettingsStore {
  readonly #api: Api;
  readonly #place: { readonly namespace: string; readonly name: string };

  constructor(api: Api, namespace: string, name: string) {
    this.#api = api;
    this.#place = { namespace, name };
  }

  async read(): Promise<SettingsRecord> {
    const object = await this.#get();
    return object ? toSettingsRecord(object) : { settings: { allowedImageRepositories: [] } };
  }

  async write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord> {
    const packed = JSON.stringify(settings.allowedImageRepositories);
    for (;;) {
      const there = await this.#get();
      if (expected !== undefined && there?.metadata.resourceVersion !== expected) throw changed();
      const data = { ...there?.data, [REPOSITORIES]: packed };
      if (!there) {
        const made = await createObject(this.#api, CONFIG_MAP, { metadata: this.#place, data });
        if (made !== 'exists') return toSettingsRecord(made);
        continue;
      }
      const { labels, annotations, resourceVersion } = there.metadata;
      const metadata = {
        ...this.#place,
        resourceVersion,
        ...(labels && { labels }),
        ...(annotations && { annotations }),
      };
      const written = await replaceObject(this.#api, CONFIG_MAP, { metadata, data }, there);
      if (written !== 'conflict' && written !== 'absent') return toSettingsRecord(written);
      if (expected !== undefined) throw changed();
    }
  }

  async #get(): Promise<Stored<ConfigMap> | undefined> {
    try {
      return await this.#api.get<ConfigMap>(CONFIG_MAP, this.#place);
    } catch (error) {
      throw toStoreError(error, `read ConfigMap ${this.#place.name} in namespace ${this.#place.namespace}`);
    }
  }
}

/** A value that cannot be parsed is an error. An empty list would allow every repository (S16). */
function toSettingsRecord({ data, metadata }: Stored<ConfigMap>): SettingsRecord {
  const { name, namespace, resourceVersion } = metadata;
  const allowedImageRepositories = parseList(data?.[REPOSITORIES]);
  if (allowedImageRepositories) {
    return { settings: { allowedImageRepositories }, version: resourceVersion as Version };
  }
  throw new StoreError(
    'damaged',
    `${REPOSITORIES} in ConfigMap ${name} in namespace ${namespace} is not a JSON list of strings: correct it, for instance to []`,
  );
}

function parseList(text: string | undefined): string[] | undefined {
  if (text === undefined) return [];
  try {
    const list: unknown = JSON.parse(text) ?? [];
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined;
  } catch {
    return undefined;
  }
}

const changed = () => new StoreError('conflict', 'the settings were changed meanwhile: read them again');
