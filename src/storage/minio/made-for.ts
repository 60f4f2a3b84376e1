import type { S3 } from './wire/s3.ts';

const MADE = '.made/';

/** Names that one request gives. */
const PAGE = 1_000;

/** The buckets that were made for services, by the uid of the service: a store finds none by what is said of it. */
export class MadeFor {
  readonly #s3: S3;

  constructor(s3: S3) {
    this.#s3 = s3;
  }

  /** Some may be gone. */
  async buckets(uid: string): Promise<string[]> {
    const prefix = `${MADE}${encodeURIComponent(uid)}/`;
    const names: string[] = [];
    for (let after = ''; ; ) {
      const page = await this.#s3.list(this.#s3.staging, prefix, PAGE, after);
      names.push(...(page?.objects ?? []).map(({ key }) => key.slice(prefix.length)));
      if (!page?.more) return names;
      after = page.objects.at(-1)?.key ?? after;
    }
  }

  async remember(name: string, uid: string): Promise<void> {
    await this.#s3.put(memoryOf(name, uid, this.#s3), '');
  }

  async forget(name: string, uid: string): Promise<void> {
    await this.#s3.remove(memoryOf(name, uid, this.#s3));
  }
}

const memoryOf = (name: string, uid: string, { staging }: S3) => ({
  bucket: staging,
  key: `${MADE}${encodeURIComponent(uid)}/${name}`,
});
