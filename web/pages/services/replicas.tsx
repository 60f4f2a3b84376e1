import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { request } from '../../api/client.ts';
import { queries, type Replica, type Replicas as ReplicasView, type Service } from '../../api/queries.ts';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { readField } from '../../lib/form.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.services;

/** The replicas of a service with their states; adds and removes them. */
export function Replicas({ service: { name } }: { service: Service }) {
  const client = useQueryClient();
  const replicas = useQuery(queries.replicas(name));
  const change = useMutation({
    mutationFn: async ({ method, members }: { method: 'POST' | 'DELETE'; members: readonly Partial<Replica>[] }) => {
      const path = `/system/federation/${encodeURIComponent(name)}`;
      const headers = { 'content-type': 'application/json' };
      const response = await request(path, { method, headers, body: JSON.stringify({ members }) });
      return (await response.json()) as ReplicasView;
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['services'] }),
  });
  const add = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [cluster_id, service_name] = [readField(form, 'cluster'), readField(form, 'service')];
    change.mutate({ method: 'POST', members: [{ type: 'oscar', cluster_id, service_name }] });
    event.currentTarget.reset();
  };
  return (
    <Loaded query={replicas}>
      {({ topology, members, conditions }) => (
        <>
          {members === null ? (
            <p className="quiet">{T.noReplicas}</p>
          ) : (
            <div className="table-scroll">
              <table>
                <caption>{topology}</caption>
                <thead>
                  <tr>
                    {[T.member, T.state, T.priority, ''].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {members.map((member) => (
                    <Row
                      key={`${member.cluster_id}/${member.service_name}${member.url}`}
                      member={member}
                      remove={() => change.mutate({ method: 'DELETE', members: [member] })}
                    />
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {conditions?.map(({ type, reason }) => (
            <p key={type} className="problem">
              {type}: {reason}
            </p>
          ))}
          {change.data?.warnings?.map((warning) => (
            <p key={warning} className="problem">
              {warning}
            </p>
          ))}
          {change.isError && <Problem error={change.error} />}
          <form className="filters" onSubmit={add}>
            <label>
              {T.addCluster}
              <input name="cluster" required />
            </label>
            <label>
              {T.addService}
              <input name="service" defaultValue={name} required />
            </label>
            <button type="submit" disabled={change.isPending}>
              {T.add}
            </button>
          </form>
        </>
      )}
    </Loaded>
  );
}

function Row({ member, remove }: { member: Replica; remove: () => void }) {
  const { type, cluster_id, service_name, url, state = 'ready', reason, priority } = member;
  return (
    <tr>
      <th scope="row">{type === 'endpoint' ? url : `${cluster_id}/${service_name}`}</th>
      <td>
        <StateBadge state={state} /> {reason}
      </td>
      <td>{priority}</td>
      <td>
        <button type="button" onClick={remove}>
          {T.remove}
        </button>
      </td>
    </tr>
  );
}
