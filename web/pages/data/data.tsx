import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { readField } from '../../lib/form.ts';
import { formatBytes } from '../../lib/format.ts';
import { toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { Folder } from './folder.tsx';

const T = TEXTS.data;

export function DataPage({ path: [bucket] }: { path: readonly string[] }) {
  const { query } = useLocation();
  return bucket === undefined ? (
    <BucketList />
  ) : (
    <Folder key={bucket} bucket={bucket} prefix={query.get('prefix') ?? ''} />
  );
}

function BucketList() {
  const buckets = useQuery(queries.buckets());
  return (
    <>
      <h1>{T.title}</h1>
      <NewBucket />
      <Loaded query={buckets}>
        {(list) =>
          list.length === 0 ? (
            <p className="quiet">{T.empty}</p>
          ) : (
            <div className="table-scroll">
              <table>
                <thead>
                  <tr>
                    {[T.bucket, T.visibility, T.used].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {list.map(({ bucket_name, visibility, storage_usage }) => (
                    <tr key={bucket_name}>
                      <th scope="row">
                        <Link to={toPath(['data', bucket_name])}>{bucket_name}</Link>
                      </th>
                      <td>{visibility}</td>
                      <td>{formatBytes(storage_usage.used_bytes)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function NewBucket() {
  const client = useQueryClient();
  const [problem, setProblem] = useState('');
  const create = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const name = readField(new FormData(form), 'name').trim();
    try {
      await call('POST /system/buckets', { body: { bucket_name: name } });
      setProblem('');
      form.reset();
      await client.invalidateQueries({ queryKey: ['buckets'] });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <form className="filters" onSubmit={(event) => void create(event)}>
      <label>
        {T.newBucket}
        <input name="name" required autoComplete="off" />
      </label>
      <button type="submit">{T.create}</button>
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
