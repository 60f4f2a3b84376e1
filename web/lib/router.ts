import { useSyncExternalStore } from 'react';

/**
 * The address is the state: every view, filter and selection is in it, so that links can be shared and the back button
 * works.
 */
export interface Location {
  /** Parts of the path below `/ui/`, decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const BASE = '/ui/';
const CHANGED = 'oscar:navigated';

export function useLocation(): Location {
  const href = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return parseLocation(href);
}

/** Exported for its test. */
export function parseLocation(href: string): Location {
  const { pathname, searchParams } = new URL(href, 'http://page');
  const rest = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : '';
  return {
    path: rest
      .split('/')
      .filter((part) => part !== '')
      .map(decodeURIComponent),
    query: searchParams,
  };
}

export function toPath(parts: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''));
  return `${BASE}${parts.map(encodeURIComponent).join('/')}${search.size > 0 ? `?${search}` : ''}`;
}

export function navigate(to: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  dispatchEvent(new Event(CHANGED));
  if (!replace) scrollTo(0, 0);
}

/** Changes one parameter of the query, and keeps the others. Filters do not fill the history. */
export function setQuery(name: string, value: string): void {
  const url = new URL(location.href);
  if (value === '') url.searchParams.delete(name);
  else url.searchParams.set(name, value);
  navigate(url.pathname + url.search, { replace: true });
}

function subscribe(listener: () => void): () => void {
  addEventListener('popstate', listener);
  addEventListener(CHANGED, listener);
  return () => {
    removeEventListener('popstate', listener);
    removeEventListener(CHANGED, listener);
  };
}
