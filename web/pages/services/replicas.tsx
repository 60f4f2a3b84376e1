import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call, request } from '../../api/client.ts';
import { queries, type Replica, type Replicas as ReplicasView, type Service } from '../../api/queries.ts';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { useNow } from '../../lib/clock.ts';
import { readField } from '../../lib/form.ts';
import { formatAge } from '../../lib/format.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.services;
const TOPOLOGIES = ['none', 'star', 'mesh'];
const POLICIES = ['static', 'random', 'load-based', 'topsis', 'fastest'];

/** The replicas of a service with their states; adds, changes and removes them. */
export function Replicas({ service, etag }: { service: Service; etag: string | undefined }) {
  const { name } = service;
  const change = useChangeMembers(name);
  const settings = useChangeFederation(service, etag);
  const isPending = change.isPending || settings.isPending;
  const replicas = useQuery({ ...queries.replicas(name), refetchInterval: isPending ? 500 : 5_000 });
  return (
    <Loaded query={replicas}>
      {({ members, conditions }) => (
        <>
          {members === null ? (
            <p className="quiet">{T.noReplicas}</p>
          ) : (
            <>
              <FederationForm service={service} isPending={isPending} onApply={settings.mutate} />
              <MembersTable members={members} isPending={isPending} onChange={change.mutate} />
            </>
          )}
          {conditions?.map(({ type, reason }) => (
            <p key={type} className="problem">
              {type}: {reason}
            </p>
          ))}
          <div aria-live="polite">
            {isPending && <p role="status">{T.progress}</p>}
            {change.data?.warnings?.map((warning) => (
              <p key={warning} className="problem">
                {warning}
              </p>
            ))}
            {settings.data !== undefined && settings.data !== '' && <p className="problem lines">{settings.data}</p>}
            {change.isError && <Problem error={change.error} title={T.rejected} />}
            {settings.isError && <Problem error={settings.error} title={T.rejected} />}
          </div>
          <AddForm name={name} isPending={isPending} onAdd={change.mutate} />
        </>
      )}
    </Loaded>
  );
}

interface MembersChange {
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly members: readonly Partial<Replica>[];
}

function useChangeMembers(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ method, members }: MembersChange) => {
      const path = `/system/federation/${encodeURIComponent(name)}`;
      const headers = { 'content-type': 'application/json' };
      const response = await request(path, { method, headers, body: JSON.stringify({ members }) });
      return (await response.json()) as ReplicasView;
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['services'] }),
  });
}

type Federation = NonNullable<Service['federation']>;
type Policy = NonNullable<Federation['delegation']>;

/** Topology, policy and weights are part of the definition. The answer is a text if some members get it later. */
function useChangeFederation({ token: _, ...service }: Service, etag: string | undefined) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (federation: Partial<Federation>) => {
      const body = { ...service, federation: { ...service.federation, ...federation } };
      const { data } = await call('PUT /system/services', { body, ifMatch: etag });
      return typeof data === 'string' ? data : '';
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['services'] }),
  });
}

function FederationForm({
  service: { federation },
  isPending,
  onApply,
}: {
  service: Service;
  isPending: boolean;
  onApply: (federation: Partial<Federation>) => void;
}) {
  const [policy, setPolicy] = useState<Policy>(federation?.delegation ?? 'static');
  const clusters = [...new Set((federation?.members ?? []).map(({ cluster_id }) => cluster_id))];
  const apply = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const given = clusters.map((id) => [id, Number(readField(form, `weight ${id}`) || 1)] as const);
    const topology = readField(form, 'topology') as Federation['topology'];
    onApply({ topology, delegation: policy, ...(policy === 'random' && { weights: Object.fromEntries(given) }) });
  };
  return (
    <form className="filters" onSubmit={apply}>
      <label>
        {T.topology}
        <select name="topology" defaultValue={federation?.topology}>
          {TOPOLOGIES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label>
        {T.policy}
        <select value={policy} onChange={(event) => setPolicy(event.target.value as Policy)}>
          {POLICIES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      {policy === 'random' &&
        clusters.map((id) => (
          <label key={id}>
            {T.weight} {id}
            <input
              type="number"
              min="0"
              step="any"
              name={`weight ${id}`}
              defaultValue={federation?.weights?.[id] ?? 1}
            />
          </label>
        ))}
      <button type="submit" disabled={isPending}>
        {T.apply}
      </button>
    </form>
  );
}

function MembersTable({
  members,
  isPending,
  onChange,
}: {
  members: readonly Replica[];
  isPending: boolean;
  onChange: (change: MembersChange) => void;
}) {
  const now = useNow(5_000);
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            {[T.member, T.state, T.priority].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
            <td />
          </tr>
        </thead>
        <tbody>
          {members.map((member) => (
            <Row
              key={`${nameOf(member)} ${member.priority}`}
              member={member}
              now={now}
              isPending={isPending}
              onChange={onChange}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const nameOf = ({ type, url, cluster_id, service_name }: Replica) =>
  type === 'endpoint' ? url : `${cluster_id}/${service_name}`;

function Row({
  member,
  now,
  isPending,
  onChange,
}: {
  member: Replica;
  now: number;
  isPending: boolean;
  onChange: (change: MembersChange) => void;
}) {
  const { state = 'ready', reason, last_seen, priority } = member;
  const [wanted, setWanted] = useState(String(priority));
  const name = nameOf(member);
  const { state: _, reason: __, last_seen: ___, ...plain } = member;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <StateBadge state={state} /> {reason}{' '}
        {last_seen !== undefined && <span className="quiet">{formatAge(now - Date.parse(last_seen))}</span>}
      </td>
      <td>
        <input
          type="number"
          aria-label={`${T.priority} ${name}`}
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
        {wanted !== String(priority) && (
          <button
            type="button"
            disabled={isPending}
            onClick={() => onChange({ method: 'PUT', members: [{ ...plain, priority: Number(wanted) || 0 }] })}
          >
            {T.apply}
          </button>
        )}
      </td>
      <td>
        <button
          type="button"
          disabled={isPending || state === 'removing'}
          aria-label={`${T.remove} ${name}`}
          onClick={() => onChange({ method: 'DELETE', members: [plain] })}
        >
          {T.remove}
        </button>
      </td>
    </tr>
  );
}

function AddForm({
  name,
  isPending,
  onAdd,
}: {
  name: string;
  isPending: boolean;
  onAdd: (change: MembersChange) => void;
}) {
  const add = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [cluster_id, service_name] = [readField(form, 'cluster'), readField(form, 'service')];
    const priority = Number(readField(form, 'priority')) || 0;
    onAdd({ method: 'POST', members: [{ type: 'oscar', cluster_id, service_name, priority }] });
    event.currentTarget.reset();
  };
  return (
    <form className="filters" onSubmit={add}>
      <label>
        {T.addCluster}
        <input name="cluster" required />
      </label>
      <label>
        {T.addService}
        <input name="service" defaultValue={name} required />
      </label>
      <label>
        {T.priority}
        <input name="priority" type="number" defaultValue="0" />
      </label>
      <button type="submit" disabled={isPending}>
        {T.add}
      </button>
    </form>
  );
}
