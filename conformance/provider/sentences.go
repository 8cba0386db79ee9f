// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
)

// sentence writes the role for X in a sentence.
func (r *role) sentence(text string) string {
	return strings.NewReplacer("an X", article(r.name)+" "+r.name, "An X", strings.ToUpper(article(r.name)[:1])+article(r.name)[1:]+" "+r.name, "XTemplate", r.name+"Template", "X", r.name).Replace(text)
}

func article(noun string) string {
	if strings.ContainsRune("AEIOU", rune(noun[0])) {
		return "an"
	}
	return "a"
}

// say is a check about the role for X.
func (r *role) say(name, description string, c check) check {
	c.Name, c.Description = r.sentence(name), r.sentence(description)
	c.remedy = r.sentence(c.remedy)
	return c
}

var advice = conformance.Check{Advice: true}

// defined adapts a check of a kind's definition.
func defined(look func(*definition.Kind) error) func(context.Context, *subject) error {
	return func(_ context.Context, s *subject) error { return look(&s.kind) }
}

// in adapts a check of an existing object.
func in(look func(*objectchecks.Object, context.Context) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error { return look(s.Object, ctx) }
}

// labelled is vital only if no version can be used.
func labelled(_ context.Context, s *subject) error {
	err := s.kind.Labelled()
	if err != nil && !s.kind.Usable() {
		s.problem = "there is no version of it to use"
	}
	return err
}

// definitions are the checks of what a provider installs.
func (r *role) definitions() []check {
	return []check{
		r.say("An X is defined by a CustomResourceDefinition.",
			"It exists, for the kind and the group that are checked.",
			check{remedy: "Install the definition, or correct kind and group in the config.", vital: true, test: defined((*definition.Kind).There)}),
		r.say("The definition of an X says by labels which of its versions keep which version of the contract.",
			"The label is cluster.x-k8s.io/ and the contract's version, such as v1beta2; its value lists versions of the definition, joined by _. The last of them is used: it is there and served. The template's definition has the label too.",
			check{remedy: "Add the label cluster.x-k8s.io/v1beta2 with the versions of the API to the definitions, best in config/crd/kustomization.yaml.", test: labelled}),
		r.say("The labels of the definition of an X name versions that are there.",
			"Also those that are not the last. No client uses them today.",
			check{Check: advice, remedy: "Take versions that are gone out of the labels, for each definition on its own.", test: defined((*definition.Kind).LabelsTrue)}),
		r.say("An X keeps the latest version of the contract.",
			"One that keeps v1beta1 is checked by the fields of v1beta1, and works until Cluster API stops reading them.",
			check{Check: advice, remedy: "Add the fields of the latest version in addition to the older ones, and its label.", test: defined((*definition.Kind).UpToDate)}),
		r.say("The definition of an X has the label by which a move finds it.",
			"clusterctl.cluster.x-k8s.io, which clusterctl sets when it installs a provider. It can be seen on a management cluster.",
			check{Check: advice, remedy: "Install the provider with capstan init or clusterctl init, or set the label.", test: defined((*definition.Kind).Movable)}),
		r.say("The definition of an X has the name that the contract computes.",
			"The plural of the kind in lower case, a dot and the group, for the template as well: by this name the labels are found.",
			check{remedy: "Name the definition so, and its plural.", test: defined((*definition.Kind).WellNamed)}),
		r.say("An X lies in a namespace.",
			"So does its template: the scope of their definitions is Namespaced.",
			check{remedy: "Set spec.scope to Namespaced.", test: defined((*definition.Kind).Namespaced)}),
		r.say("An X has a list kind of its name with List after it.",
			"So has its template.",
			check{remedy: "Set spec.names.listKind to the kind with List after it.", test: defined((*definition.Kind).Listed)}),
		r.say("The definition of an X has the fields that Cluster API cannot do without.",
			"Those that this page calls mandatory, in the version that the label names.",
			check{remedy: "Add the fields to the types of the API and generate the definition again.", test: func(_ context.Context, s *subject) error { return s.kind.FieldsThere(s.role.promises) }}),
		r.say("The fields of an X that Cluster API reads are of the types of the contract.",
			"Those of this page that are there.",
			check{remedy: "Give the fields the types of the contract.", test: func(_ context.Context, s *subject) error { return s.kind.FieldsTyped(s.role.promises) }}),
		r.say("The status of an X is a subresource.",
			"Otherwise every client that may write the spec may write the status, and each write of one can undo the other.",
			check{Check: advice, remedy: "Add the marker kubebuilder:subresource:status.", test: defined((*definition.Kind).StatusApart)}),
		r.say("The manager may read and write an X of a group of its own.",
			"By a ClusterRole with the label cluster.x-k8s.io/aggregate-to-manager: \"true\". It names all verbs on the kind, and get, list, patch, update and watch on its template. The groups infrastructure, bootstrap and controlplane of cluster.x-k8s.io need none.",
			check{remedy: "Ship such a ClusterRole with the provider.", test: defined((*definition.Kind).RightsGranted)}),
		r.say("An XTemplate goes with an X.",
			"MachineDeployments, control planes and ClusterClasses make objects from it.",
			check{Check: conformance.Check{Advice: r.optional}, remedy: "Define the template, with its list kind.", test: defined((*definition.Kind).Templated)}),
		r.say("An XTemplate holds what is made from it in spec.template.spec.",
			"An object; it need not have all fields.",
			check{remedy: "Put the fields under spec.template.spec.", test: defined((*definition.Kind).TemplateShaped)}),
	}
}

// beginning are the checks of an object until it has reached its goal.
func (r *role) beginning(owner, done string) []check {
	return []check{
		r.say("An X is left alone until its owner is there.",
			"Nothing is done for it before Cluster API has set the owner reference to its "+owner+". It may get its finalizer, and conditions that report this.",
			check{remedy: "End the reconcile when there is no owner reference to a " + owner + ".", live: true, test: in((*objectchecks.Object).LeftAlone)}),
		r.say("An X with the annotation cluster.x-k8s.io/paused is not reconciled.",
			"With everything available that it waits for. It may get its finalizer and report that it is paused. A provider that continues during a pause does so during a move too, and then two providers change the same infrastructure.",
			check{remedy: "Look for the annotation before anything else is done.", live: true, test: in((*objectchecks.Object).PausedByAnnotation)}),
		r.say("An X that is paused reports it in the condition Paused.",
			"It becomes True while the annotation is there.",
			check{Check: advice, remedy: "Set the condition Paused to True before the reconcile ends for the pause.", live: true, test: in((*objectchecks.Object).PauseSaid)}),
		r.say("An X that the watch filter leaves out is left alone.",
			"One without the label cluster.x-k8s.io/watch-filter, with all that it waits for at hand. It can be seen with watchFilter in the config, which says how the provider was started.",
			check{Check: advice, remedy: "Support the flag --watch-filter, and let no other objects trigger a reconcile.", live: true, test: in((*objectchecks.Object).Filtered)}),
		r.say("An X comes to be "+done+".",
			"Within the timeout, after the annotation is removed, without any other change.",
			check{remedy: "Check the log of the provider, and raise the timeout if it needs longer.", live: true, vital: true, test: in((*objectchecks.Object).Unblock)}),
	}
}

// middle are the checks of an object that has reached its goal.
func (r *role) middle(condition string) []check {
	return []check{
		r.say("The conditions of an X are well-formed.",
			"Each has a type of its own and the status True, False or Unknown; reason and message are text, lastTransitionTime a time. At all times.",
			check{remedy: "Set conditions by a library, such as that of apimachinery.", live: true, test: in((*objectchecks.Object).ConditionsWellFormed)}),
		r.say("An X reports the condition "+condition+".",
			"It is shown where the object is referred to, and says what is wrong when something is.",
			check{Check: advice, remedy: "Set the condition in status.conditions at each reconcile.", live: true, test: in(objectchecks.Reports(condition))}),
		r.say("An X that is no longer paused reports it in the condition Paused.",
			"It becomes False when the annotation is gone.",
			check{Check: advice, remedy: "Set the condition Paused whenever a reconcile begins.", live: true, test: in((*objectchecks.Object).ResumeSaid)}),
		r.say("An X reaches a steady state.",
			"When nothing changes any longer, nothing is written. Repeated writes trigger every client that watches the object.",
			check{Check: advice, remedy: "Compare before writing, and leave times and counters out of the status.", live: true, test: in((*objectchecks.Object).Resting)}),
	}
}

// end are the checks of later pauses, and of the deletion.
func (r *role) end(owner string) []check {
	return []check{
		r.say("An X of a paused Cluster is not reconciled.",
			"While spec.paused of the Cluster is true. Its status is taken away then, as a move to another management cluster does, and must not come back before the pause ends.",
			check{remedy: "Read the Cluster at each reconcile, and stop if spec.paused is true.", live: true, test: in((*objectchecks.Object).PausedByCluster)}),
		r.say("An X whose status was lost gets it back.",
			"When the pause ends: a move takes no status along, so all of it must be found again from the spec and from the infrastructure.",
			check{remedy: "Compute the status again at each reconcile; store nothing in it that cannot be recomputed.", live: true, vital: true, test: in((*objectchecks.Object).Restored)}),
		r.say("What an X has come to is not taken back.",
			"The field that reports it stays true until the object is deleted, also if the infrastructure fails later; conditions report that.",
			check{remedy: "Set the field once and leave it.", live: true, test: in((*objectchecks.Object).NeverBack)}),
		r.say("An X leaves its "+owner+" as it is.",
			"The spec, labels and annotations that others have given it, and those of its Cluster.",
			check{remedy: "Write only to objects of the provider, and to their Secrets; report the rest in the status.", live: true, test: in((*objectchecks.Object).OwnersKept)}),
		r.say("An X that is deleted while it is paused is kept.",
			"With its finalizers, and with all that was made for it: a move deletes what it has copied. One that has no finalizer has nothing to keep.",
			check{remedy: "Look for the pause before you look for the deletion.", live: true, test: in((*objectchecks.Object).KeptInPause)}),
		r.say("An X goes away when its "+owner+" is deleted.",
			"Within the timeout, with all finalizers of the provider.",
			check{remedy: "Remove the finalizer when the infrastructure is gone, or was never there.", live: true, test: in((*objectchecks.Object).GoesAway)}),
		r.say("What others have written of an X is kept.",
			"A finalizer, a label and an annotation of another client, at all times, and the owner reference.",
			check{remedy: "Add and remove your own finalizers, labels and annotations, and write no lists of them.", live: true, test: in((*objectchecks.Object).OthersKept)}),
	}
}

func (r *role) finalizer(what string) check {
	return r.say("An X has a finalizer before it is "+what+".",
		"So that the infrastructure created for it is not left behind when it is deleted. Without anything to delete none is needed.",
		check{Check: advice, remedy: "Add the finalizer, and store it, before anything is made.", live: true, test: in((*objectchecks.Object).FinalizerFirst)})
}

// set sets a field of an object whose fields are of the types of JSON.
func set(obj *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(obj.Object, value, path...) // parents are objects
}
