/** What is asked of a registry. */
export interface ImageReference {
  readonly name: string;
  /** A tag, or a digest as `sha256:…`. */
  readonly version: string;
}

const HOST = String.raw`(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::\d+)?\/)?`;
const PART = String.raw`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`;
const TAG = String.raw`\w[\w.-]{0,127}`;
const DIGEST = '[a-z0-9]+:[0-9a-f]{32,}';
const REFERENCE = new RegExp(`^(?<name>${HOST}${PART}(?:/${PART})*)(?::(?<tag>${TAG}))?(?:@(?<digest>${DIGEST}))?$`);

/** Undefined if no registry can have such an image. Without a tag it is `latest`: the API would fetch all of them. */
export function readReference(image: string): ImageReference | undefined {
  const { name, tag, digest } = REFERENCE.exec(image)?.groups ?? {};
  return name === undefined ? undefined : { name, version: digest ?? tag ?? 'latest' };
}
