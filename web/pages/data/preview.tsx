import { useEffect, useRef, useState } from 'react';
import { ConfirmDialog } from '../../components/confirm-dialog.tsx';
import { TEXTS } from '../../texts.ts';
import { parseCsv } from './csv.ts';
import { deleteObject, presignDownload } from './upload.ts';

const T = TEXTS.data;

const KINDS = [
  ['image', /\.(png|jpe?g|gif|webp|avif|bmp)$/i],
  ['pdf', /\.pdf$/i],
  ['csv', /\.(csv|tsv)$/i],
  ['json', /\.json$/i],
  ['text', /\.(txt|ya?ml|log|md|py|sh|xml|html?|ini|toml|js|ts|jsonl)$/i],
] as const;
type Kind = (typeof KINDS)[number][0];

/** Larger texts would make the browser slow; larger documents use much memory. */
const MOST_BYTES: Readonly<Record<Kind, number>> = {
  image: 64 * 1024 * 1024,
  pdf: 64 * 1024 * 1024,
  csv: 1024 * 1024,
  json: 1024 * 1024,
  text: 1024 * 1024,
};

interface Content {
  readonly url?: string;
  readonly text?: string;
  /** The address of a document in the memory of this page. */
  readonly blob?: string;
  readonly problem?: string;
}

/** Shows a file: pictures and PDF as such, tables as tables, everything else that people read as text. */
export function Preview({
  bucket,
  object,
  size,
  onClose,
  onDeleted,
}: {
  bucket: string;
  object: string;
  size: number;
  onClose: () => void;
  onDeleted: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const kind = KINDS.find(([, pattern]) => pattern.test(object))?.[0];
  const isTooLarge = kind !== undefined && size > MOST_BYTES[kind];
  const [content, setContent] = useState<Content>();
  const [asking, setAsking] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    let blob: string | undefined;
    (async () => {
      const url = await presignDownload(bucket, object);
      if (kind === undefined || isTooLarge || kind === 'image') return setContent({ url });
      const response = await fetch(url, { credentials: 'omit' });
      if (!response.ok) throw new Error(`the store answered with ${response.status}`);
      if (kind !== 'pdf') return setContent({ url, text: await response.text() });
      // The type is ours, whatever the store says: a document that is no PDF is never shown as a page with scripts.
      blob = URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: 'application/pdf' }));
      setContent({ url, blob });
    })().catch((error: unknown) => setContent({ problem: error instanceof Error ? error.message : String(error) }));
    return () => {
      if (blob !== undefined) URL.revokeObjectURL(blob);
    };
  }, [bucket, object, kind, isTooLarge]);
  const remove = () => {
    setAsking(false);
    deleteObject(bucket, object).then(onDeleted, (error: unknown) =>
      setContent({ problem: error instanceof Error ? error.message : String(error) }),
    );
  };
  return (
    <dialog ref={dialog} onClose={onClose} className="preview-dialog" aria-label={object}>
      <h2>{object}</h2>
      {!content && <p role="status">{TEXTS.loading}</p>}
      {content?.problem !== undefined && (
        <p className="problem" role="alert">
          {content.problem}
        </p>
      )}
      {content && content.problem === undefined && (isTooLarge || kind === undefined) && (
        <p className="quiet">{isTooLarge ? T.tooLarge : T.noPreview}</p>
      )}
      {content?.url !== undefined && kind === 'image' && !isTooLarge && (
        <img src={content.url} alt={object} className="preview" />
      )}
      {content?.blob !== undefined && <iframe src={content.blob} title={object} className="preview-document" />}
      {content?.text !== undefined && <TextPreview kind={kind} object={object} text={content.text} />}
      <div className="actions">
        {content?.url !== undefined && (
          <a href={content.url} download={object.replace(/^.*\//, '')} className="button">
            {T.download}
          </a>
        )}
        <ShareLink bucket={bucket} object={object} />
        <button type="button" className="danger" onClick={() => setAsking(true)}>
          {T.delete}
        </button>
        <button type="button" onClick={() => dialog.current?.close()}>
          {T.close}
        </button>
      </div>
      {asking && (
        <ConfirmDialog
          title={T.deleteQuestion(object)}
          yes={T.delete}
          no={T.keep}
          onYes={remove}
          onNo={() => setAsking(false)}
        >
          <p>{T.deleteWill}</p>
        </ConfirmDialog>
      )}
    </dialog>
  );
}

function TextPreview({ kind, object, text }: { kind: Kind | undefined; object: string; text: string }) {
  if (kind === 'csv') {
    const [head = [], ...rows] = parseCsv(text, /\.tsv$/i.test(object) ? '\t' : ',', MOST_ROWS + 1);
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
      <div className="table-scroll preview-table" tabIndex={0} role="region" aria-label={object}>
        <table>
          <thead>
            <tr>
              {head.map((cell, column) => (
                <th key={`${String(column)} ${cell}`} scope="col">
                  {cell}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, line) => (
              <tr key={`line ${String(line)}`}>
                {row.map((cell, column) => (
                  <td key={`cell ${String(column)}`}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {rows.length >= MOST_ROWS && <p className="quiet">{T.firstRows(MOST_ROWS)}</p>}
      </div>
    );
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <pre className="log" tabIndex={0}>
      {kind === 'json' ? indented(text) : text}
    </pre>
  );
}

const MOST_ROWS = 200;

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Shown as it is.
    return text;
  }
}

/** A link that works without an account until it expires. */
function ShareLink({ bucket, object }: { bucket: string; object: string }) {
  const [seconds, setSeconds] = useState(3600);
  const [link, setLink] = useState<{ readonly url?: string; readonly problem?: string }>();
  const make = () =>
    void presignDownload(bucket, object, { expires_in: seconds }).then(
      (url) => setLink({ url }),
      (error: unknown) => setLink({ problem: error instanceof Error ? error.message : String(error) }),
    );
  return (
    <details className="share">
      <summary>{T.link}</summary>
      <p className="quiet">{T.linkWarning}</p>
      <p className="actions">
        <label>
          {T.expires}
          <select value={seconds} onChange={(event) => setSeconds(Number(event.target.value))}>
            {Object.entries(T.expiry).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={make}>
          {T.makeLink}
        </button>
      </p>
      {link?.url !== undefined && (
        <p className="actions">
          <input readOnly value={link.url} aria-label={T.link} onFocus={(event) => event.target.select()} />
          <button type="button" onClick={() => void navigator.clipboard?.writeText(link.url ?? '')}>
            {T.copy}
          </button>
        </p>
      )}
      {link?.problem !== undefined && <p className="problem">{link.problem}</p>}
    </details>
  );
}
