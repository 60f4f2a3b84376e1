import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { TEXTS } from '../texts.ts';

/** Shows that data is loading, or why it could not be loaded, and the data otherwise. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  return (
    <p className="quiet" role="status">
      {TEXTS.loading}
    </p>
  );
}

export function Problem({ error, retry, title = TEXTS.problem }: { error: Error; retry?: () => void; title?: string }) {
  return (
    <div className="problem" role="alert">
      <p className="lines">
        {title}: {error.message}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          {TEXTS.retry}
        </button>
      )}
    </div>
  );
}
