import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { membersOf, queries, type Service } from '../../api/queries.ts';
import { ConfirmDialog } from '../../components/confirm-dialog.tsx';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { navigate, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { Replicas } from './replicas.tsx';
import { ServiceEditor } from './service-editor.tsx';

const T = TEXTS.services;

export function ServicePage({ name }: { name: string }) {
  const found = useQuery(queries.service(name));
  const { query } = useLocation();
  return (
    <Loaded query={found}>
      {({ service, etag }) =>
        query.get('edit') === null ? (
          <ServiceDetails service={service} />
        ) : (
          <ServiceEditor service={service} etag={etag} />
        )
      }
    </Loaded>
  );
}

function ServiceDetails({ service }: { service: Service }) {
  const { name, image, visibility, owner } = service;
  return (
    <>
      <p className="breadcrumb">
        <Link to={toPath(['services'])}>{T.title}</Link> /
      </p>
      <h1>{name}</h1>
      <p className="actions">
        <Link to={toPath(['jobs'], { service: name })} className="button">
          {T.jobs}
        </Link>
        <Link to={toPath(['run'], { service: name })} className="button">
          {TEXTS.views.run}
        </Link>
        <Link to={toPath(['services', name], { edit: 'true' })} className="button">
          {T.edit}
        </Link>
        <DeleteButton service={service} />
      </p>
      <dl>
        <dt>{T.image}</dt>
        <dd>{image}</dd>
        <dt>{T.visibility}</dt>
        <dd>{visibility}</dd>
        <dt>{T.owner}</dt>
        <dd>{owner}</dd>
      </dl>
      <section>
        <h2>{T.replicas}</h2>
        <Replicas service={service} />
      </section>
      <section>
        <h2>{T.call}</h2>
        <pre className="log">{callExamples(service)}</pre>
      </section>
      <section>
        <h2>{T.definition}</h2>
        <pre className="log">{JSON.stringify(withoutSecrets(service), null, 2)}</pre>
      </section>
    </>
  );
}

/** The token is a secret that people would copy with the rest. */
const withoutSecrets = ({ token: _, ...shown }: Service) => shown;

function callExamples({ name, input }: Service): string {
  const { origin } = location;
  const lines = [
    `# wait for the answer`,
    `curl -H "Authorization: Bearer $TOKEN" ${origin}/run/${name} --data-binary @input.txt`,
    `# queue a job`,
    `curl -H "Authorization: Bearer $TOKEN" ${origin}/job/${name} --data-binary @input.txt`,
    `# the command line`,
    `oscar run ${name} --file input.txt`,
    `# Python`,
    `from oscar_python.client import Client`,
    `Client({"endpoint": "${origin}", "oidc_token": token, "ssl": True}).run_service("${name}", input="input.txt")`,
    ...(input ?? []).map(({ path }) => `# or upload a file to ${path}`),
  ];
  return lines.join('\n');
}

function DeleteButton({ service }: { service: Service }) {
  const { name } = service;
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => call('DELETE /system/services/{name}', { path: { name } }),
    onSuccess: async () => {
      client.removeQueries({ queryKey: ['services', name] });
      await client.invalidateQueries({ queryKey: ['services'] });
      navigate(toPath(['services']));
    },
  });
  return (
    <>
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        {T.delete}
      </button>
      {remove.isError && <Problem error={remove.error} />}
      {asking && (
        <ConfirmDialog
          title={T.deleteQuestion(name)}
          yes={T.delete}
          no={T.deleteNo}
          onYes={() => remove.mutate()}
          onNo={() => setAsking(false)}
        >
          <p>{T.deleteWill}</p>
          <ul>
            {(service.input ?? []).concat(service.output ?? []).map(({ path }) => (
              <li key={path}>{path}</li>
            ))}
            {membersOf(service).map(({ cluster_id, service_name }) => (
              <li key={`${cluster_id}/${service_name}`}>
                {cluster_id}/{service_name}
              </li>
            ))}
          </ul>
        </ConfirmDialog>
      )}
    </>
  );
}
