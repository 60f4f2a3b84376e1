import { useQueryClient } from '@tanstack/react-query';
import { lazy, type ReactNode, Suspense, useEffect } from 'react';
import { startLive, useLive } from './api/live.ts';
import { Link } from './components/link.tsx';
import { type Location, toPath, useLocation } from './lib/router.ts';
import { Overview } from './pages/overview/overview.tsx';
import { type Session, signOut, useSession } from './session/session.ts';
import { SignIn } from './session/sign-in.tsx';
import { TEXTS } from './texts.ts';

const ServicesPage = lazy(async () => ({ default: (await import('./pages/services/services.tsx')).ServicesPage }));
const JobsPage = lazy(async () => ({ default: (await import('./pages/jobs/jobs.tsx')).JobsPage }));
const DataPage = lazy(async () => ({ default: (await import('./pages/data/data.tsx')).DataPage }));
const RunPage = lazy(async () => ({ default: (await import('./pages/run/run.tsx')).RunPage }));
const ClusterPage = lazy(async () => ({ default: (await import('./pages/cluster/cluster.tsx')).ClusterPage }));

type View = keyof typeof TEXTS.views;
const VIEWS = Object.keys(TEXTS.views) as View[];

export function App() {
  const session = useSession();
  const location = useLocation();
  return session.kind === 'none' ? (
    <SignIn expired={session.expired} />
  ) : (
    <SignedIn session={session} location={location} />
  );
}

function SignedIn({ session, location }: { session: Exclude<Session, { kind: 'none' }>; location: Location }) {
  const client = useQueryClient();
  const [first = 'overview', ...rest] = location.path;
  const view = VIEWS.find((each) => each === first) ?? 'overview';
  useEffect(() => {
    const stop = new AbortController();
    void startLive(stop.signal);
    return () => {
      stop.abort();
      // Another user must not see what this one has loaded.
      client.clear();
    };
  }, [client]);
  useEffect(() => {
    document.title = `${TEXTS.views[view]} · ${TEXTS.product}`;
  }, [view]);
  return (
    <>
      <a className="skip" href="#content">
        {TEXTS.skip}
      </a>
      <header>
        <Link to={toPath([])} className="product">
          {TEXTS.product}
        </Link>
        <nav aria-label="Views">
          {VIEWS.map((each) => (
            <Link key={each} to={toPath(each === 'overview' ? [] : [each])} current={each === view}>
              {TEXTS.views[each]}
            </Link>
          ))}
        </nav>
        <Connection />
        <span className="who">{session.kind === 'admin' ? TEXTS.administrator : session.name}</span>
        <button type="button" onClick={signOut}>
          {TEXTS.signOut}
        </button>
      </header>
      <main id="content" tabIndex={-1}>
        <Suspense fallback={<p className="quiet">{TEXTS.loading}</p>}>{content(view, rest)}</Suspense>
      </main>
    </>
  );
}

function content(view: View, path: readonly string[]): ReactNode {
  switch (view) {
    case 'services':
      return <ServicesPage path={path} />;
    case 'jobs':
      return <JobsPage path={path} />;
    case 'data':
      return <DataPage path={path} />;
    case 'run':
      return <RunPage path={path} />;
    case 'cluster':
      return <ClusterPage />;
    default:
      return <Overview />;
  }
}

function Connection() {
  const { connected } = useLive();
  return (
    <span className={`connection ${connected ? 'connected' : 'lost'}`} role="status">
      {connected ? TEXTS.connection.live : TEXTS.connection.lost}
    </span>
  );
}
