import { type Service, serviceLabels } from '../../../model/service/index.ts';
import { CONFIG_MAP, type KubeObject, type Stored } from '../client/kinds.ts';
import { legalAnnotations, legalLabels } from './labels.ts';

interface PodTemplate extends KubeObject {
  readonly template: {
    readonly spec: {
      readonly automountServiceAccountToken: false;
      readonly enableServiceLinks: false;
      readonly containers: readonly { readonly name: string; readonly image: string }[];
    };
  };
}

/**
 * Shows the service to a Go manager without a serverless back-end (docs/go-manager.md#kubernetes-objects). Nothing runs
 * from it. The definition owns it, so Kubernetes removes both together.
 */
export function toPodTemplate(service: Service, definition: Stored<KubeObject>): PodTemplate {
  const { name, annotations, image } = service.definition;
  const { apiVersion, kind } = CONFIG_MAP;
  return {
    metadata: {
      name,
      namespace: service.namespace,
      labels: legalLabels(serviceLabels(service)),
      annotations: legalAnnotations(annotations),
      ownerReferences: [{ apiVersion, kind, name, uid: definition.metadata.uid }],
    },
    template: {
      spec: {
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        containers: [{ name: 'oscar-container', image: image.trim() || 'none' }],
      },
    },
  };
}
