import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../api/client.ts';
import { ConfirmDialog } from '../../components/confirm-dialog.tsx';
import { Link } from '../../components/link.tsx';
import { readField } from '../../lib/form.ts';
import { formatBytes } from '../../lib/format.ts';
import { navigate, toPath } from '../../lib/router.ts';
import { type Session, useSession } from '../../session/session.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.data;

interface BucketFacts {
  readonly bucket_name: string;
  readonly visibility: string;
  readonly owner: string;
  readonly allowed_users: readonly string[] | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly storage_usage: { readonly used_bytes: number; readonly objects?: number };
}

/** Who may use a bucket; its owner changes that here. The bucket of a service has the visibility of the service. */
export function BucketSettings({ bucket }: { bucket: BucketFacts }) {
  const session = useSession();
  const { visibility, allowed_users, owner, metadata, storage_usage } = bucket;
  const service = metadata['from_service'];
  return (
    <details className="panel">
      <summary>
        {T.visibility}: {visibility}, {T.usage(formatBytes(storage_usage.used_bytes), storage_usage.objects ?? 0)}
      </summary>
      <dl>
        <dt>{T.owner}</dt>
        <dd>{metadata['owner_name'] || owner}</dd>
        {allowed_users && allowed_users.length > 0 && (
          <>
            <dt>{T.sharedWith}</dt>
            <dd>{allowed_users.join(', ')}</dd>
          </>
        )}
      </dl>
      {service !== undefined && (
        <p className="quiet">
          {T.ofService} <Link to={toPath(['services', service])}>{service}</Link>
        </p>
      )}
      {service === undefined && mayChange(session, owner) && <SharingForm bucket={bucket} />}
    </details>
  );
}

/** Only for what the page offers: the manager decides. */
const mayChange = (session: Session, owner: string) =>
  session.kind === 'admin' || (session.kind === 'user' && (session.uid === '' || owner.startsWith(session.uid)));

function SharingForm({ bucket: { bucket_name: name, visibility, allowed_users } }: { bucket: BucketFacts }) {
  const client = useQueryClient();
  const [chosen, setChosen] = useState(visibility);
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState('');
  const attempt = async (work: Promise<unknown>, then: () => void) => {
    try {
      await work;
      setProblem('');
      then();
      await client.invalidateQueries({ queryKey: ['buckets'] });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const save = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const users = readField(new FormData(event.currentTarget), 'users')
      .split(/[\s,]+/)
      .filter((user) => user !== '');
    const body = { bucket_name: name, visibility: chosen, allowed_users: chosen === 'restricted' ? users : [] };
    void attempt(call('PUT /system/buckets', { body }), () => undefined);
  };
  const remove = () => {
    setAsking(false);
    void attempt(call('DELETE /system/buckets/{name}', { path: { name } }), () => navigate(toPath(['data'])));
  };
  return (
    <form className="filters" onSubmit={save}>
      <label>
        {T.visibility}
        <select value={chosen} onChange={(event) => setChosen(event.target.value)}>
          {Object.entries(T.visibilities).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {chosen === 'restricted' && (
        <label>
          {T.users}
          <input name="users" defaultValue={allowed_users?.join(', ') ?? ''} />
        </label>
      )}
      <button type="submit">{T.save}</button>
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        {T.deleteBucket}
      </button>
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {asking && (
        <ConfirmDialog
          title={T.deleteQuestion(name)}
          yes={T.deleteBucket}
          no={T.keep}
          onYes={remove}
          onNo={() => setAsking(false)}
        >
          <p>{T.deleteBucketWill}</p>
        </ConfirmDialog>
      )}
    </form>
  );
}
