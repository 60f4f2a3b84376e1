import { setTimeout as pause } from 'node:timers/promises';
import type { LogOptions } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { ApiError, toStoreError } from '../client/api-error.ts';
import type { Stored } from '../client/kinds.ts';
import { readNotes } from './notes.ts';
import type { PodOutcome } from './outcome.ts';
import { containerStart, findContainer, POD, type Pod, SCRIPT } from './pod.ts';
import type { PodCache } from './pod-cache.ts';

/** The wait before a log that was cut off, or ended before its container, is requested again. */
const AGAIN_MS = 500;

/**
 * The output of the script, from the kubelet. With `follow` it waits for the start, and continues after a cut connection.
 * Empty if the pod is gone, because its log was removed with it.
 */
export async function* scriptLog(
  name: string,
  { timestamps, follow, signal }: LogOptions & { readonly signal: AbortSignal },
  { api, podCache }: { readonly api: Api; readonly podCache: PodCache },
): AsyncGenerator<Uint8Array, undefined> {
  let given = 0;
  let looked = false;
  while (!signal.aborted) {
    const changed = podCache.nextChange(name);
    const pod = podCache.pods.get(name);
    const secret = podCache.secrets.get(name);
    const end = secret && readNotes(secret).end;
    const over = !secret || end !== undefined;
    const complete = over || !pod || findContainer(pod, SCRIPT)?.state?.running === undefined;
    const began = pod !== undefined && containerStart(pod) !== undefined;
    if (began) {
      try {
        for await (const bytes of readPodLog(pod, { timestamps, follow: follow && !complete }, given, api, signal)) {
          given += bytes.length;
          yield bytes;
        }
        if (complete || !follow) return;
      } catch (error) {
        if (signal.aborted) return;
        // The container has just started, or the pod was just removed.
        const nothing = error instanceof ApiError && (error.status === 404 || error.status === 400);
        if (!follow || over) {
          if (nothing) return;
          throw toStoreError(error, `read the log of attempt ${name}`);
        }
      }
    } else if (secret && end?.startedAt !== undefined && !looked) {
      looked = true;
      await podCache.refreshPod(secret);
      continue;
    } else if (!follow || over) {
      return;
    }
    await waitForChange(changed, began ? AGAIN_MS : undefined, signal);
  }
}

/** The log without the bytes that were already returned. */
async function* readPodLog(
  pod: Stored<Pod>,
  { timestamps, follow }: Pick<LogOptions, 'timestamps' | 'follow'>,
  given: number,
  api: Api,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const ended = new AbortController();
  const { namespace, name } = pod.metadata;
  // A kubelet sends this text with status 200 instead of a log that it has lost.
  const lost = `unable to retrieve container logs for ${findContainer(pod, SCRIPT)?.containerID}`;
  try {
    const place = { namespace, name, subresource: 'log' };
    const query = { container: SCRIPT, follow, timestamps };
    let skipped = 0;
    for await (const chunk of await api.openStream(POD, place, query, AbortSignal.any([signal, ended.signal]))) {
      const bytes: Uint8Array = chunk;
      if (bytes.length === lost.length && Buffer.from(bytes).toString('latin1') === lost) return;
      const rest = bytes.subarray(Math.min(bytes.length, given - skipped));
      skipped += bytes.length - rest.length;
      if (rest.length > 0) yield rest;
    }
  } finally {
    ended.abort();
  }
}

/** Resolves after a change, after the time, or when the signal aborts. */
async function waitForChange(
  changed: Promise<void>,
  milliseconds: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const woken = new AbortController();
  const over = AbortSignal.any([signal, woken.signal]);
  const aborted = new Promise<void>((resolve) => over.addEventListener('abort', () => resolve(), { once: true }));
  const late = milliseconds === undefined ? [] : [pause(milliseconds, undefined, { signal: over }).catch(() => {})];
  if (!signal.aborted) await Promise.race([changed, aborted, ...late]);
  woken.abort();
}

/** Notices about the outcome for people, one line each, which follow the output. */
export function formatNotices(
  end: PodOutcome,
  { timestamps }: Pick<LogOptions, 'timestamps'>,
  inLine: boolean,
): Uint8Array {
  const sentences = [...(end.notices ?? []), ...(end.outcome === 'succeeded' ? [] : [end.message])];
  const time = timestamps ? `${new Date(end.finishedAt).toISOString().slice(0, -1)}000000Z ` : '';
  const lines = sentences.map((each) => `${time}oscar: ${each.replaceAll('\n', ' ')}\n`);
  return Buffer.from(lines.length > 0 && inLine ? `\n${lines.join('')}` : lines.join(''));
}
