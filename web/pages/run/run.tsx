import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { request } from '../../api/client.ts';
import { useServices } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { setQuery, toPath, useLocation } from '../../lib/router.ts';
import { useSession } from '../../session/session.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.run;

type Outcome =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'image' | 'file'; readonly url: string; readonly name: string }
  | { readonly kind: 'job'; readonly service: string; readonly id: string };

/** Tries a service: with a text or a file, waiting for the answer or as a job. */
export function RunPage({ path: [named] }: { path: readonly string[] }) {
  const { query } = useLocation();
  const session = useSession();
  const services = useServices();
  const service = named ?? query.get('service') ?? services.data?.[0]?.name ?? '';
  const [input, setInput] = useState('');
  const [file, setFile] = useState<File>();
  const send = useMutation({ mutationFn: (how: 'run' | 'job') => invoke(how, service, file ?? input) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send.mutate('run');
  };
  return (
    <>
      <h1>{T.title}</h1>
      {session.kind === 'admin' && <p className="problem">{T.basic}</p>}
      <Loaded query={services}>
        {(list) =>
          list.length === 0 ? (
            <p className="quiet">{T.noServices}</p>
          ) : (
            <form onSubmit={submit}>
              <label>
                {T.service}
                <select value={service} onChange={(event) => setQuery('service', event.target.value)}>
                  {list.map(({ name }) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              </label>
              <label className="editor">
                {T.input}
                <textarea
                  rows={8}
                  value={input}
                  onChange={(event) => setInput(event.target.value)}
                  disabled={file !== undefined}
                  spellCheck={false}
                />
              </label>
              <label>
                {T.file}
                <input type="file" onChange={(event) => setFile(event.target.files?.[0])} />
              </label>
              <p className="actions">
                <button type="submit" className="primary" disabled={send.isPending}>
                  {T.run}
                </button>
                <button type="button" onClick={() => send.mutate('job')} disabled={send.isPending}>
                  {T.queue}
                </button>
              </p>
            </form>
          )
        }
      </Loaded>
      <section aria-live="polite" aria-label={T.answer}>
        {send.isPending && <p>{T.running}</p>}
        {send.isError && <Problem error={send.error} />}
        {send.data && <Answer outcome={send.data} />}
      </section>
    </>
  );
}

function Answer({ outcome }: { outcome: Outcome }) {
  switch (outcome.kind) {
    case 'job':
      return (
        <p>
          {T.queued} <Link to={toPath(['jobs', outcome.service, outcome.id])}>{outcome.id}</Link>
        </p>
      );
    case 'text':
      return <pre className="log">{outcome.text}</pre>;
    case 'image':
      return <img src={outcome.url} alt={T.answer} className="preview" />;
    default:
      return (
        <a href={outcome.url} download={outcome.name}>
          {TEXTS.data.download}
        </a>
      );
  }
}

async function invoke(how: 'run' | 'job', service: string, input: File | string): Promise<Outcome> {
  const response = await request(`/${how}/${encodeURIComponent(service)}`, {
    method: 'POST',
    body: await toBase64(input),
  });
  if (how === 'job') return { kind: 'job', service, id: response.headers.get('x-oscar-job-id') ?? '' };
  return toOutcome(fromBase64(await response.text()), service);
}

/** Services get their input as base64, and answer with base64 if the result is a file. */
async function toBase64(input: File | string): Promise<string> {
  const bytes = new Uint8Array(typeof input === 'string' ? new TextEncoder().encode(input) : await input.arrayBuffer());
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK) text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(text);
}

/** Arguments of one call of String.fromCharCode: engines allow some ten thousand. */
const CHUNK = 8_192;

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const trimmed = text.replace(/\s/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(trimmed) || trimmed.length % 4 !== 0) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(trimmed), (letter) => letter.charCodeAt(0));
}

const IMAGES: readonly (readonly [type: string, start: readonly number[]])[] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46]],
];

function toOutcome(bytes: Uint8Array<ArrayBuffer>, service: string): Outcome {
  const image = IMAGES.find(([, start]) => start.every((byte, index) => bytes[index] === byte));
  if (image) return { kind: 'image', url: URL.createObjectURL(new Blob([bytes], { type: image[0] })), name: service };
  try {
    return { kind: 'text', text: indentJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) };
  } catch {
    return { kind: 'file', url: URL.createObjectURL(new Blob([bytes])), name: `${service}.bin` };
  }
}

/** JSON in lines that can be read; any other text as it is. */
function indentJson(text: string): string {
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
