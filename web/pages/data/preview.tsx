import { useEffect, useRef, useState } from 'react';
import { TEXTS } from '../../texts.ts';
import { presignDownload } from './upload.ts';

const T = TEXTS.data;

const IMAGE = /\.(png|jpe?g|gif|webp|avif|bmp)$/i;
const TEXT = /\.(txt|json|csv|tsv|ya?ml|log|md|py|sh|xml|html?|ini|toml|js|ts)$/i;

/** Larger texts would make the browser slow. */
const MOST_TEXT = 1024 * 1024;

/** Shows a file: pictures as such, everything else that people read as text, and a link to download it. */
export function Preview({
  bucket,
  object,
  size,
  onClose,
}: {
  bucket: string;
  object: string;
  size: number;
  onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [content, setContent] = useState<{ url: string; text?: string; problem?: string }>();
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    (async () => {
      const url = await presignDownload(bucket, object);
      if (!TEXT.test(object) || size > MOST_TEXT) return setContent({ url });
      const response = await fetch(url, { credentials: 'omit' });
      setContent({ url, text: await response.text() });
    })().catch((error: unknown) =>
      setContent({ url: '', problem: error instanceof Error ? error.message : String(error) }),
    );
  }, [bucket, object, size]);
  return (
    <dialog ref={dialog} onClose={onClose} className="preview-dialog" aria-label={object}>
      <h2>{object}</h2>
      {content && IMAGE.test(object) && content.url !== '' && (
        <img src={content.url} alt={object} className="preview" />
      )}
      {content?.text !== undefined && <pre className="log">{content.text}</pre>}
      {content && content.text === undefined && !IMAGE.test(object) && (
        <p className="quiet">{content.problem ?? (size > MOST_TEXT ? T.tooLarge : T.noPreview)}</p>
      )}
      <p className="actions">
        {content && content.url !== '' && (
          <a href={content.url} download={object.replace(/^.*\//, '')} className="button">
            {T.download}
          </a>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          {T.close}
        </button>
      </p>
    </dialog>
  );
}
