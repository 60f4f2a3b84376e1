import { type ReactNode, useEffect, useRef } from 'react';

/** A question that must be answered before something is removed. The browser keeps the focus inside and closes it on Escape. */
export function ConfirmDialog({
  title,
  children,
  yes,
  no,
  onYes,
  onNo,
}: {
  title: string;
  children: ReactNode;
  yes: string;
  no: string;
  onYes: () => void;
  onNo: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onNo} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{title}</h2>
      {children}
      <p className="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          {no}
        </button>
        <button type="button" className="danger" onClick={onYes}>
          {yes}
        </button>
      </p>
    </dialog>
  );
}
