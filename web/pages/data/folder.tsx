import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { type DragEvent, useEffect, useMemo, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { isEnded, useLive } from '../../api/live.ts';
import { type Service, useServices } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { formatBytes, formatDate } from '../../lib/format.ts';
import { toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { BucketSettings } from './bucket-settings.tsx';
import { Preview } from './preview.tsx';
import { type Upload, uploadFile } from './upload.ts';

const T = TEXTS.data;

interface StoredObject {
  readonly object_name: string;
  readonly size_bytes: number;
  readonly last_modified: string;
}

export function Folder({ bucket, prefix }: { bucket: string; prefix: string }) {
  const client = useQueryClient();
  const services = useServices();
  const [shown, setShown] = useState<StoredObject>();
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  // One file after the other: many at once would compete for the link and fill the memory.
  const queue = useRef<Promise<void>>(Promise.resolve());
  const pages = useInfiniteQuery({
    queryKey: ['buckets', bucket, prefix],
    initialPageParam: '',
    staleTime: 0,
    queryFn: async ({ pageParam, signal }) =>
      (
        await call('GET /system/buckets/{name}', {
          path: { name: bucket },
          query: { ...(prefix !== '' && { prefix }), ...(pageParam !== '' && { page: pageParam }) },
          signal,
        })
      ).data,
    getNextPageParam: ({ next_page }) => (next_page === '' ? undefined : next_page),
  });
  useEffectAfterJobs(() => void client.invalidateQueries({ queryKey: ['buckets', bucket] }));
  const upload = (files: FileList | null) => {
    for (const file of files ?? []) {
      const key = `${prefix}${file.name}`;
      const update = (next: Upload) => {
        setUploads((before) => [...before.filter((each) => each.key !== key), next]);
        if (next.state === 'done') void client.invalidateQueries({ queryKey: ['buckets', bucket] });
      };
      queue.current = queue.current.then(() => uploadFile(bucket, key, file, update));
      update({ key, share: 0, state: 'sending' });
    }
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    upload(event.dataTransfer.files);
  };
  const starts = (services.data ?? [])
    .filter((service) => readsFolder(service, bucket, prefix))
    .map(({ name }) => name);
  return (
    <section onDragOver={(event) => event.preventDefault()} onDrop={drop} aria-label={bucket}>
      <Breadcrumb bucket={bucket} prefix={prefix} />
      {pages.data?.pages[0] && <BucketSettings bucket={pages.data.pages[0]} />}
      {starts.length > 0 && <p className="hint">{T.starts(starts)}</p>}
      <label className="drop">
        {T.drop}
        <input type="file" multiple onChange={(event) => upload(event.target.files)} />
      </label>
      <ul className="uploads" aria-live="polite">
        {uploads.map(({ key, share, state, problem, retry }) => (
          <li key={key}>
            {key} <progress value={share} max={1} aria-label={key} /> {state === 'done' ? T.done : problem}{' '}
            {retry && (
              <button type="button" onClick={retry}>
                {TEXTS.retry}
              </button>
            )}
          </li>
        ))}
      </ul>
      <Loaded query={pages}>
        {(data) => (
          <Entries
            bucket={bucket}
            prefix={prefix}
            objects={data.pages.flatMap(({ objects = [] }) => objects)}
            onOpen={setShown}
          />
        )}
      </Loaded>
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()} disabled={pages.isFetching}>
          {T.more}
        </button>
      )}
      {shown && (
        <Preview
          bucket={bucket}
          object={shown.object_name}
          size={shown.size_bytes}
          onClose={() => setShown(undefined)}
          onDeleted={() => {
            setShown(undefined);
            void client.invalidateQueries({ queryKey: ['buckets', bucket] });
          }}
        />
      )}
    </section>
  );
}

/** Longer: results appear later. Shorter: a busy cluster causes more requests. */
const REFRESH_MS = 2_000;

/** Calls the function when jobs have ended, since they write files; not more often than every two seconds. */
function useEffectAfterJobs(effect: () => void): void {
  const { jobs } = useLive();
  const ended = useMemo(() => jobs.values().filter(isEnded).toArray().length, [jobs]);
  const latest = useRef({ effect, ended, seen: ended });
  latest.current = { ...latest.current, effect, ended };
  useEffect(() => {
    const timer = setInterval(() => {
      const { effect: run, ended: now, seen } = latest.current;
      if (now === seen) return;
      latest.current.seen = now;
      run();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
}

function Breadcrumb({ bucket, prefix }: { bucket: string; prefix: string }) {
  const folders = prefix.split('/').filter((part) => part !== '');
  return (
    <h1 className="breadcrumb-title">
      <Link to={toPath(['data'])}>{T.title}</Link> / <Link to={toPath(['data', bucket])}>{bucket}</Link>
      {folders.map((folder, index) => (
        <span key={folders.slice(0, index + 1).join('/')}>
          {' / '}
          <Link to={toPath(['data', bucket], { prefix: `${folders.slice(0, index + 1).join('/')}/` })}>{folder}</Link>
        </span>
      ))}
    </h1>
  );
}

function Entries({
  bucket,
  prefix,
  objects,
  onOpen,
}: {
  bucket: string;
  prefix: string;
  objects: readonly StoredObject[];
  onOpen: (object: StoredObject) => void;
}) {
  const inside = objects.filter(({ object_name }) => object_name.startsWith(prefix) && object_name !== prefix);
  const rest = (name: string) => name.slice(prefix.length);
  const folders = [
    ...new Set(
      inside
        .filter(({ object_name }) => rest(object_name).includes('/'))
        .map(({ object_name }) => rest(object_name).replace(/\/.*$/, '')),
    ),
  ];
  const files = inside.filter(({ object_name }) => !rest(object_name).includes('/'));
  if (folders.length + files.length === 0) return <p className="quiet">{T.emptyFolder}</p>;
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            {[T.name, T.size, T.modified].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {folders.map((folder) => (
            <tr key={folder}>
              <th scope="row">
                <Link to={toPath(['data', bucket], { prefix: `${prefix}${folder}/` })}>{folder}/</Link>
              </th>
              <td />
              <td />
            </tr>
          ))}
          {files.map((file) => (
            <tr key={file.object_name}>
              <th scope="row">
                <button type="button" className="as-link" onClick={() => onOpen(file)}>
                  {rest(file.object_name)}
                </button>
              </th>
              <td>{formatBytes(file.size_bytes)}</td>
              <td>{formatDate(file.last_modified)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Whether an upload to this folder starts the service. */
function readsFolder({ input }: Service, bucket: string, prefix: string): boolean {
  return (input ?? []).some(({ storage_provider, path }) => {
    const [from, ...folder] = path.split('/');
    return storage_provider.startsWith('minio') && from === bucket && prefix.startsWith(`${folder.join('/')}/`);
  });
}
