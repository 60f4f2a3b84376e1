import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { call } from '../../api/client.ts';
import type { Service } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Problem } from '../../components/loaded.tsx';
import { navigate, toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { diffLines } from './diff-lines.ts';

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

/** Creates a service, or changes one: shows what will change before it is saved. */
export function ServiceEditor({ service, etag }: { service?: Service; etag?: string | undefined }) {
  const client = useQueryClient();
  const before = useMemo(() => JSON.stringify(service ?? EXAMPLE, null, 2), [service]);
  const [text, setText] = useState(before);
  const problem = useMemo(() => jsonProblem(text), [text]);
  const changes = useMemo(() => diffLines(before, text), [before, text]);
  const save = useMutation({
    mutationFn: async () => {
      const body = JSON.parse(text) as { name: string };
      await (service ? call('PUT /system/services', { body, ifMatch: etag }) : call('POST /system/services', { body }));
      return body.name;
    },
    onSuccess: async (name) => {
      await client.invalidateQueries({ queryKey: ['services'] });
      navigate(toPath(['services', name]));
    },
  });
  return (
    <>
      <h1>{service ? `${T.edit} ${service.name}` : T.create}</h1>
      <label className="editor">
        {T.editorHint}
        <textarea
          value={text}
          onChange={(event) => setText(event.target.value)}
          rows={24}
          spellCheck={false}
          aria-invalid={problem !== undefined}
        />
      </label>
      {problem !== undefined && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {save.isError && <Problem error={save.error} />}
      {service && (
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
      )}
      <p className="actions">
        <Link to={toPath(service ? ['services', service.name] : ['services'])} className="button">
          {T.cancel}
        </Link>
        <button
          type="button"
          className="primary"
          onClick={() => save.mutate()}
          disabled={problem !== undefined || save.isPending}
        >
          {service ? T.save : T.createIt}
        </button>
      </p>
    </>
  );
}

function jsonProblem(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
