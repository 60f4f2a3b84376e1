import { useEffect, useMemo, useRef, useState } from 'react';
import { request } from '../../api/client.ts';
import { Problem } from '../../components/loaded.tsx';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.jobs;

/** Longer logs keep their end only: a browser that draws more becomes slow. */
const MAX_LENGTH = 2_000_000;

/** The log of a job: follows while the job runs, and shows only lines that match the search. */
export function JobLog({ service, id, isEnded }: { service: string; id: string; isEnded: boolean }) {
  const { text, error, open } = useLog(service, id, isEnded);
  const [search, setSearch] = useState('');
  const box = useRef<HTMLPreElement>(null);
  const found = useMemo(() => {
    if (search === '') return undefined;
    return text.split('\n').filter((line) => line.toLowerCase().includes(search.toLowerCase()));
  }, [text, search]);
  const lines = found ? found.join('\n') : text;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const nearEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 100;
    if (nearEnd) element.scrollTop = element.scrollHeight;
  });
  return (
    <>
      <p className="filters">
        <input
          type="search"
          aria-label={T.logFilter}
          placeholder={T.logFilter}
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        {open && <span className="quiet">{T.following}</span>}
        <span className="quiet" role="status">
          {found && T.matches(found.length)}
        </span>
      </p>
      {error && <Problem error={error} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <pre ref={box} className="log" tabIndex={0} aria-label={T.logs}>
        {lines === '' ? <span className="quiet">{T.noLog}</span> : lines}
      </pre>
    </>
  );
}

function useLog(service: string, id: string, isEnded: boolean) {
  const [state, setState] = useState<{ text: string; error?: Error; open: boolean }>({ text: '', open: true });
  useEffect(() => {
    const stop = new AbortController();
    (async () => {
      setState({ text: '', open: true });
      const path = `/system/logs/${encodeURIComponent(service)}/${encodeURIComponent(id)}?follow=${!isEnded}`;
      const response = await request(path, { signal: stop.signal });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const chunk = await reader?.read();
        if (!chunk || chunk.done) break;
        setState(({ text }) => ({ text: (text + chunk.value).slice(-MAX_LENGTH), open: true }));
      }
      setState(({ text }) => ({ text, open: false }));
    })().catch((error: unknown) => {
      if (!stop.signal.aborted && error instanceof Error) setState(({ text }) => ({ text, error, open: false }));
    });
    return () => stop.abort();
  }, [service, id, isEnded]);
  return state;
}
