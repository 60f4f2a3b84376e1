import { useMutation, useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense, useMemo, useState } from 'react';
import { call } from '../../api/client.ts';
import type { Service } from '../../api/queries.ts';
import type { Operations } from '../../api/schema.ts';
import { Link } from '../../components/link.tsx';
import { Problem } from '../../components/loaded.tsx';
import { navigate, setQuery, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { type Format, formatOf, parseText, type TextProblem, toText } from './definition-text.ts';
import { diffLines } from './diff-lines.ts';
import { ServiceForm } from './service-form.tsx';

/** Large, and loaded only when it is opened. */
const FdlEditor = lazy(async () => ({ default: (await import('./fdl-editor.tsx')).FdlEditor }));

const T = TEXTS.services;

const EXAMPLE = {
  name: 'hello',
  image: 'busybox',
  cpu: '0.5',
  memory: '128Mi',
  script: '#!/bin/sh\necho "hello from $(hostname)"\ncp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"\n',
  input: [{ storage_provider: 'minio.default', path: 'hello/in' }],
  output: [{ storage_provider: 'minio.default', path: 'hello/out' }],
};

export interface ServiceEditorProps {
  readonly service?: Service;
  readonly etag?: string | undefined;
}

/** Creates a service, or changes one: by form or as text, with a dry run, and with what will change before it is saved. */
export function ServiceEditor({ service, etag }: ServiceEditorProps) {
  const { query } = useLocation();
  const asText = query.get('mode') === 'fdl';
  const original = useMemo(() => (service ? toEditable(service) : EXAMPLE), [service]);
  const [text, setText] = useState(() => toText(original, 'yaml'));
  const { definition, problems } = useMemo(() => parseText(text), [text]);
  const errors = problems.filter(({ severity }) => severity === 'error');
  const save = useSave(service, etag);
  const dryRun = useDryRun(service, etag);
  const change = (next: string) => {
    setText(next);
    dryRun.reset();
    save.reset();
  };
  const isDisabled = !definition || errors.length > 0 || save.isPending;
  return (
    <>
      <h1>{service ? `${T.edit} ${service.name}` : T.create}</h1>
      <p className="filters">
        <span className="tabs">
          <button type="button" aria-pressed={!asText} onClick={() => setQuery('mode', '')}>
            {T.byForm}
          </button>
          <button type="button" aria-pressed={asText} onClick={() => setQuery('mode', 'fdl')}>
            {T.byText}
          </button>
        </span>
        {asText && <FormatButton text={text} definition={definition} onChange={change} />}
      </p>
      {asText ? (
        <>
          <p className="quiet">{T.editorHint}</p>
          <Suspense fallback={<p className="quiet">{TEXTS.loading}</p>}>
            <FdlEditor text={text} onChange={change} />
          </Suspense>
        </>
      ) : definition ? (
        <ServiceForm text={text} definition={definition} isNew={!service} onChange={change} />
      ) : (
        <p className="problem">{T.notAForm}</p>
      )}
      <Problems problems={problems} />
      {service && <Changes before={toText(original, formatOf(text))} after={text} />}
      <section aria-live="polite" aria-label={T.dryRun}>
        {dryRun.isPending && <p className="quiet">{T.checking}</p>}
        {dryRun.isError && <Problem error={dryRun.error} title={T.wouldFail} />}
        {dryRun.data && <PlanView plan={dryRun.data} />}
      </section>
      {save.isPending && <p role="status">{T.saving}</p>}
      {save.isError && <Problem error={save.error} title={T.rejected} />}
      <p className="actions">
        <Link to={toPath(service ? ['services', service.name] : ['services'])} className="button">
          {T.cancel}
        </Link>
        <button
          type="button"
          onClick={() => definition && dryRun.mutate(definition)}
          disabled={isDisabled || dryRun.isPending}
        >
          {T.dryRun}
        </button>
        <button
          type="button"
          className="primary"
          onClick={() => definition && save.mutate(definition)}
          disabled={isDisabled}
        >
          {service ? T.save : T.createIt}
        </button>
      </p>
    </>
  );
}

type DefinitionObject = Readonly<Record<string, unknown>>;

function useSave(service: Service | undefined, etag: string | undefined) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: DefinitionObject) => {
      await (service ? call('PUT /system/services', { body, ifMatch: etag }) : call('POST /system/services', { body }));
      return String(body['name']);
    },
    onSuccess: async (name) => {
      await client.invalidateQueries({ queryKey: ['services'] });
      navigate(toPath(['services', name]));
    },
  });
}

type Plan = Operations['POST /system/services']['response'];

function useDryRun(service: Service | undefined, etag: string | undefined) {
  return useMutation({
    mutationFn: async (body: DefinitionObject) => {
      const query = { dry_run: 'true' };
      const { data } = await (service
        ? call('PUT /system/services', { body, query, ifMatch: etag })
        : call('POST /system/services', { body, query }));
      return data;
    },
  });
}

/** What an editor shows of a stored service: neither its token nor keys that are empty, which mean the same as no key. */
function toEditable({ token: _, ...service }: Service): object {
  return Object.fromEntries(Object.entries(service).filter(([, value]) => !isEmpty(value)));
}

const isEmpty = (value: unknown) =>
  value === '' ||
  value === null ||
  value === undefined ||
  (typeof value === 'object' &&
    Object.values(value).every((each) => each === '' || each === null || each === undefined));

function FormatButton({
  text,
  definition,
  onChange,
}: {
  text: string;
  definition: DefinitionObject | undefined;
  onChange: (text: string) => void;
}) {
  const other: Format = formatOf(text) === 'json' ? 'yaml' : 'json';
  return (
    <button type="button" disabled={!definition} onClick={() => definition && onChange(toText(definition, other))}>
      {T.showAs(other)}
    </button>
  );
}

function Problems({ problems }: { problems: readonly TextProblem[] }) {
  return (
    <ul className="problems" aria-label={T.problems} aria-live="polite">
      {problems.map(({ line, from, message, severity }) => (
        <li key={`${from} ${message}`} className={severity}>
          {T.atLine(line)} {message}
        </li>
      ))}
    </ul>
  );
}

function Changes({ before, after }: { before: string; after: string }) {
  const changes = useMemo(() => diffLines(before, after), [before, after]);
  return (
    <section aria-label={T.changes}>
      <h2>{T.changes}</h2>
      {changes.length === 0 ? (
        <p className="quiet">{T.noChanges}</p>
      ) : (
        <pre className="log diff">
          {changes.map(({ kind, line, number }) => (
            <span key={`${kind} ${number}`} className={`diff-${kind}`}>
              {`${kind === 'added' ? '+' : '-'} ${line}\n`}
            </span>
          ))}
        </pre>
      )}
    </section>
  );
}

function PlanView({ plan: { action, name, changes, buckets, members } }: { plan: Plan }) {
  return (
    <div className="plan">
      <h2>{T.plan[action](name)}</h2>
      <ul>
        {action === 'update' && <li>{changes.length === 0 ? T.noChanges : T.planChanges(changes)}</li>}
        {buckets.map(({ name: bucket, action: what }) => (
          <li key={bucket}>{T.planBucket[what](bucket)}</li>
        ))}
        {members.map(({ member, action: what, problem }) => (
          <li key={member} className={problem === undefined ? undefined : 'error'}>
            {T.planMember[what](member)} {problem}
          </li>
        ))}
      </ul>
      <p className="quiet">{T.planNothingChanged}</p>
    </div>
  );
}
