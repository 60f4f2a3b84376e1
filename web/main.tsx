import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './api/client.ts';
import { App } from './app.tsx';

/** Answers that repeat the request would not change are not retried. */
const isFinal = (error: Error) => error instanceof ApiError && error.status < 500;

const queryClient = new QueryClient({
  defaultOptions: { queries: { retry: (count, error) => count < 3 && !isFinal(error), staleTime: 2_000 } },
});

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
