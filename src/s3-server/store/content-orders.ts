import type { Digests, WantedDigests } from '../lib/digests.ts';

/** What the event loop tells a thread that writes content, about the content of this number. */
export type ContentOrder = { readonly id: number } & (
  | { readonly kind: 'open'; readonly path: string; readonly wanted: WantedDigests }
  | { readonly kind: 'write'; readonly buffer: ArrayBuffer; readonly length: number }
  /** Everything is written: to the disk with it. */
  | { readonly kind: 'finish' }
  /** It is what it should be: it gets its name. */
  | { readonly kind: 'publish'; readonly from: string; readonly to: string }
  | { readonly kind: 'discard'; readonly path: string }
);

export type ContentReply = { readonly id: number } /** The buffer comes back, to be used again. */ & (
  | { readonly kind: 'written'; readonly buffer: ArrayBuffer }
  | { readonly kind: 'finished'; readonly digests: Digests }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string; readonly full?: boolean }
);
