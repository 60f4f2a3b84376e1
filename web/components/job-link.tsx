import type { JobSummary } from '../api/live.ts';
import { toPath } from '../lib/router.ts';
import { Link } from './link.tsx';

/** The name of a job, which is long, shortened to its service and the end of its id. */
export function JobLink({ job }: { job: Pick<JobSummary, 'service' | 'id' | 'object'> }) {
  const { service, id, object } = job;
  return (
    <Link to={toPath(['jobs', service, id])}>
      {service} <span className="mono">{id.slice(-8)}</span>
      {object && <span className="quiet"> {object.key.replace(/^.*\//, '')}</span>}
    </Link>
  );
}
