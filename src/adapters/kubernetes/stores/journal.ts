import type { Cursor, Page, Version } from '../../../lib/version.ts';
import {
  cursorAfter,
  cursorPosition,
  type Journal,
  type JournalEntry,
  type JournalState,
  packState,
  StoreError,
} from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { CONFIG_MAP, type ConfigMap, type Stored } from '../client/kinds.ts';
import { createObject, isSuperseded, removeObject, replaceObject } from '../client/writes.ts';
import { derivedName, KEY, PURPOSE } from '../objects/labels.ts';
import { compareBytes } from './compare-bytes.ts';

const PAGE = 100;
const LABEL = 'journal';
const STATE = 'state';

/** Stores each journal entry as a ConfigMap in the manager's namespace. */
export class KubernetesJournal implements Journal {
  readonly #api: Api;
  readonly #namespace: string;
  readonly #page: number;

  constructor(api: Api, namespace: string, page = PAGE) {
    this.#api = api;
    this.#namespace = namespace;
    this.#page = page;
  }

  async begin(key: string, state: JournalState): Promise<JournalEntry> {
    const made = await createObject(this.#api, CONFIG_MAP, this.#object(key, packState(key, state)));
    if (made === 'exists') throw new StoreError('exists', `"${key}" is already in the journal`);
    return toJournalEntry(made);
  }

  async read(key: string): Promise<JournalEntry | undefined> {
    const object = await this.#get(key);
    return object && toJournalEntry(object);
  }

  async claim(key: string, expected: Version): Promise<Version | 'busy'> {
    const there = await this.#get(key);
    if (there?.metadata.resourceVersion !== expected) return 'busy';
    const claimed = await replaceObject(this.#api, CONFIG_MAP, inVersion(there, expected), there);
    if (claimed === 'absent' || claimed === 'conflict' || isSuperseded(claimed)) return 'busy';
    return claimed.metadata.resourceVersion as Version;
  }

  async advance(key: string, expected: Version, state: JournalState): Promise<Version> {
    const next = this.#object(key, packState(key, state));
    const there = await this.#inVersion(key, expected);
    const advanced = await replaceObject(this.#api, CONFIG_MAP, inVersion(next, expected), there);
    if (advanced === 'absent') throw absent(key);
    if (advanced === 'conflict') throw overtaken(key);
    return advanced.metadata.resourceVersion as Version;
  }

  async finish(key: string, expected: Version): Promise<void> {
    const there = await this.#inVersion(key, expected);
    const outcome = await removeObject(this.#api, CONFIG_MAP, there);
    if (outcome === 'absent') throw absent(key);
    if (outcome === 'conflict') throw overtaken(key);
  }

  /** Always lists from the server: recovery must see every entry. There are few entries and few callers. */
  async list(prefix: string, cursor?: Cursor): Promise<Page<JournalEntry>> {
    const start = cursorPosition(cursor, prefix);
    const place = { namespace: this.#namespace };
    const { items } = await this.#api
      .list<ConfigMap>(CONFIG_MAP, place, { labelSelector: `${PURPOSE}=${LABEL}` })
      .catch((error) => {
        throw toStoreError(error, 'list the journal');
      });
    const found = items
      .map((object) => ({ object, key: journalKey(object) }))
      .filter(({ key }) => key.startsWith(prefix) && compareBytes(key, start) >= 0)
      .toSorted((a, b) => compareBytes(a.key, b.key));
    const shown = found.slice(0, this.#page);
    const entries = shown.map(({ object }) => toJournalEntry(object));
    const last = shown.at(-1);
    return found.length > shown.length && last ? { items: entries, next: cursorAfter(last.key) } : { items: entries };
  }

  async #get(key: string): Promise<Stored<ConfigMap> | undefined> {
    try {
      return await this.#api.get<ConfigMap>(CONFIG_MAP, {
        namespace: this.#namespace,
        name: derivedName(LABEL, key),
      });
    } catch (error) {
      throw toStoreError(error, `read "${key}" in the journal`);
    }
  }

  async #inVersion(key: string, expected: Version): Promise<Stored<ConfigMap>> {
    const there = await this.#get(key);
    if (!there) throw absent(key);
    if (there.metadata.resourceVersion !== expected) throw overtaken(key);
    return there;
  }

  #object(key: string, state: string): ConfigMap {
    return {
      metadata: {
        name: derivedName(LABEL, key),
        namespace: this.#namespace,
        labels: { [PURPOSE]: LABEL },
        annotations: { [KEY]: key },
      },
      data: { [STATE]: state },
    };
  }
}

function inVersion({ metadata, data }: ConfigMap, resourceVersion: Version): ConfigMap {
  const { name, namespace, labels, annotations } = metadata;
  return {
    metadata: {
      name,
      resourceVersion,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels }),
      ...(annotations && { annotations }),
    },
    ...(data && { data }),
  };
}

const journalKey = ({ metadata }: Stored<ConfigMap>) => metadata.annotations?.[KEY] ?? '';

function toJournalEntry(object: Stored<ConfigMap>): JournalEntry {
  const key = journalKey(object);
  try {
    const state: JournalState = JSON.parse(object.data?.[STATE] ?? '');
    return { key, state, version: object.metadata.resourceVersion as Version };
  } catch (cause) {
    throw new StoreError('damaged', `the ConfigMap ${object.metadata.name} is not a valid journal entry`, { cause });
  }
}

const absent = (key: string) => new StoreError('absent', `"${key}" is not in the journal`);

const overtaken = (key: string) =>
  new StoreError('conflict', `another manager has changed "${key}" in the journal meanwhile`);
