// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"slices"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// everyHandler are the handlers alone, everyPath the handlers and discovery.
func everyHandler(s *session) []*handler { return s.handlers }
func everyPath(s *session) []*handler {
	if !s.discovered {
		return nil
	}
	return s.paths()
}

func blocking(s *session) []*handler    { return s.those(func(h *handler) bool { return h.blocking }) }
func notBlocking(s *session) []*handler { return s.those(func(h *handler) bool { return !h.blocking }) }

// answering are the handlers for any of some hooks.
func answering(hooks ...string) scope {
	return func(s *session) []*handler {
		return s.those(func(h *handler) bool {
			return h.hook.Group == hooksv1.GroupVersion().Group && slices.Contains(hooks, h.hook.Hook)
		})
	}
}

var (
	generating  = answering("GeneratePatches")
	validating  = answering("ValidateTopology")
	defining    = answering("DiscoverVariables")
	planning    = answering("GenerateUpgradePlan")
	updating    = answering("CanUpdateMachine", "CanUpdateMachineSet")
	withContent = answering("DiscoverVariables", "GenerateUpgradePlan", "CanUpdateMachine", "CanUpdateMachineSet")
)

func (s *session) those(want func(*handler) bool) []*handler {
	return slices.DeleteFunc(slices.Clone(s.handlers), func(h *handler) bool { return !want(h) })
}

// given is a test that needs what get returns.
func given[A, B any](get func(*session, context.Context, *handler) (A, B, error), test func(context.Context, *session, *handler, A, B) error) func(context.Context, *session, *handler) error {
	return func(ctx context.Context, s *session, h *handler) error {
		a, b, err := get(s, ctx, h)
		if err != nil {
			return err
		}
		return test(ctx, s, h, a, b)
	}
}

// checks lists all checks. Later checks rely on earlier ones.
func checks() []check {
	return slices.Concat(reaching(), answeringWell(), refusing(), enduring(), topology(), inPlaceAndUpgrades(), advice())
}

// say is a check of the extension that a sentence names.
func say(name, description string, c check) check {
	c.Name, c.Description = name, description
	return c
}

func reaching() []check {
	return []check{
		say("An extension serves HTTPS with a certificate that its CA bundle verifies for its host.",
			"Requests contain whole Clusters, so callers verify the server. The certificate must be for the host of the URL, be valid now, and be signed by an authority of the CA bundle, or of the system without one.",
			check{remedy: "Start the server, if nothing answers at the URL. Use a certificate that has the host of the URL among its names, and give the CA bundle that signed it; if the server asks for client certificates, give one.", vital: true, test: certificateVerified}),
		say("Its certificates are valid for another day at least.",
			"The server's certificate and those that sign it, at the moment of the connection. A certificate that is renewed must be served without a restart.",
			check{remedy: "Renew the certificate, and have the server read it again when it changes.", test: certificateLasts}),
		say("Discovery names each handler once, with a hook, a timeout and a failure policy that exist.",
			"Names are DNS-1123 labels. A timeout is 1 to 30 seconds, or 10 when left out. A failure policy is Ignore or Fail. One mistake keeps the whole extension from being registered.",
			check{remedy: "Correct what discovery answers. extension/server answers it by itself.", vital: true, test: discoveryValid}),
		say("Discovery gives the same answer whenever it is asked.",
			"Several times, also at the same time, and by any replica. The order of handlers does not matter.",
			check{remedy: "Answer discovery from what is fixed when the program starts, the same in all replicas.", test: discoveryStable}),
	}
}

func answeringWell() []check {
	return []check{
		say("A handler answers within the timeout that it announces.",
			"A caller gives up then, and nothing of the answer counts.",
			check{remedy: "Announce a timeout that is long enough, or answer with retryAfterSeconds and continue in the background.", about: everyHandler, vital: true, test: answersInTime}),
		say("A handler answers with status code 200 and the response of its hook in JSON.",
			"Redirects are not followed. The content type is application/json, or is left out; text/plain, which Go says where a program says nothing, counts as that. apiVersion and kind may be left out, but not be those of something else. The status in the answer reports failures, not the status code.",
			check{remedy: "Answer what happens in the handler by status Failure; keep other status codes for requests that are not understood.", about: everyHandler, vital: true, test: answersAsItsHook}),
		say("An answer has status Success or Failure.",
			"Nothing else counts as an answer, not even with status code 200.",
			check{remedy: "Set the status of the response.", about: everyHandler, vital: true, test: given((*session).fields, statusKnown)}),
		say("A Failure says why in its message.",
			"The message is what a person sees in the conditions of the Cluster. It must not hold secrets.",
			check{remedy: "Set the message of the response: what did not work, and what to do about it.", about: everyHandler, test: given((*session).fields, failureExplained)}),
		say("The answer of a blocking hook says by retryAfterSeconds when to ask again.",
			"A whole number from 0, which does not block, to 86400. It is set even if it is 0. When the caller asks again, now or later, it is answered in the same form.",
			check{remedy: "Set retryAfterSeconds to the seconds until it is worth asking again.", about: blocking, test: given((*session).fields, blockingWellFormed)}),
		say("The answer of a hook that does not block has no retryAfterSeconds.",
			"It would be ignored: the caller continues.",
			check{remedy: "Use a hook that blocks, such as one that begins with Before, to hold something up.", about: notBlocking, test: given((*session).fields, othersDoNotBlock)}),
	}
}

func refusing() []check {
	return []check{
		say("A path that belongs to no handler is not found.",
			"With status code 404, so that a caller can distinguish a handler that was removed from one that fails.",
			check{remedy: "Do not register a handler for all paths.", test: unknownPathNotFound}),
		say("A body that is too large does no harm.",
			"The server may refuse it, hang up or read it to its end; it must answer the next call.",
			check{remedy: "Bound how much of a body is read, and how many at a time.", test: largeBodySurvived}),
	}
}

func enduring() []check {
	return []check{
		say("A request has the same outcome when it is sent again.",
			"Callers ask again after they were restarted or did not get the answer. Success stays Success and an answer that did not block does not block later; a blocking answer may be followed by one that does not block.",
			check{remedy: "Look first whether what is asked for is done already.", about: everyHandler, vital: true, test: func(ctx context.Context, s *session, h *handler) error { return again(ctx, s, h, sameKind) }}),
		say("A request without a content type is taken for JSON.",
			"Most callers send no Content-Type, and no Accept either.",
			check{remedy: "Check the Content-Type header only if there is one.", about: everyPath, test: noContentTypeAccepted}),
		say("Fields that are not known are passed over.",
			"At the top of a request and further down. Fields are added to a published version of a hook, and a caller may be newer than the extension.",
			check{remedy: "Do not decode requests strictly.", about: everyPath, test: unknownFieldsTolerated}),
		say("Settings that are not known are passed over.",
			"The settings of an ExtensionConfig go to all handlers, so each gets some that are for others.",
			check{remedy: "Look only at the settings that the handler knows.", about: everyHandler, test: given((*session).firstAnswer, settingsAccepted)}),
		say("A handler keeps to the timeout that its caller gives.",
			"Calls carry ?timeout=, such as 10s, and it may be shorter than what was announced. When it is over the handler has answered, or the server closes the connection, so that work without a waiting caller does not accumulate.",
			check{remedy: "Give the handler's context a deadline from the parameter timeout, and heed the context.", about: everyHandler, test: given((*session).firstAnswer, timeoutHonoured)}),
		say("A call that its caller breaks off does not disturb the next one.",
			"Within the body, and while the caller waits for the answer.",
			check{remedy: "Release what a call holds, locks above all, also when its context ends.", about: everyHandler, test: given((*session).firstAnswer, cancelledCallForgotten)}),
		say("Calls at the same time are answered each for itself.",
			"Sixteen calls at a time: all are answered, each as it would be alone and about what it asked.",
			check{remedy: "Keep nothing of a request outside its call, or behind a lock.", about: everyHandler, test: given((*session).firstAnswer, concurrentCallsAnswered)}),
		say("A question has the same answer when it is asked again.",
			"DiscoverVariables, GenerateUpgradePlan, CanUpdateMachine and CanUpdateMachineSet: their answers are kept for a while and compared. Messages may differ.",
			check{remedy: "Compute the answer from the request alone, and put lists in a fixed order.", about: withContent, test: valueStable}),
	}
}

func topology() []check {
	return []check{
		say("GeneratePatches answers a request with the same patches each time.",
			"Byte by byte for each template. Patches that come and go roll machines out again and again.",
			check{remedy: "Compute patches from the request alone: no time, no random names, no order of a map.", about: generating, test: given((*session).succeeded, patchesDeterministic)}),
		say("GeneratePatches patches templates of the request, with patches that apply.",
			"uid is that of an item of the request, patchType is JSONPatch or JSONMergePatch, and the patch is of that form.",
			check{remedy: "Compute patches from the template before and after; extension/mutation does.", about: generating, test: given((*session).succeeded, patchesApply)}),
		say("GeneratePatches patches nothing that is thrown away.",
			"Of a template, spec.template.spec, spec.template.metadata and the labels and annotations of the template itself are taken over.",
			check{remedy: "Do not patch kind, apiVersion, name or namespace.", about: generating, test: given((*session).patchedOnce, patchesOnlyWhatTheyMay)}),
		say("GeneratePatches leaves alone what it has patched.",
			"A request with its own patches applied is answered with patches that change nothing.",
			check{remedy: "Look whether a list has an entry before it is added.", about: generating, test: given((*session).patchedOnce, patchesIdempotent)}),
		say("ValidateTopology accepts what GeneratePatches of the same extension makes.",
			"For the templates and variables that the GeneratePatches handlers were sent, patched by each in turn.",
			check{remedy: "Make the two agree. If the extension cannot accept the built-in templates, give it some of your own.", about: validating, test: given((*session).firstAnswer, patchedAccepted)}),
		say("DiscoverVariables gives each variable a name of its own.",
			"A name has 1 to 256 characters and no dot, and is not builtin.",
			check{remedy: "Rename the variable.", about: defining, test: given((*session).defined, variableNamesUnique)}),
		say("DiscoverVariables gives each variable a structural schema.",
			"As a CustomResourceDefinition needs it: a type at each level. It also says whether the variable is required.",
			check{remedy: "Give the schema, and each of its properties and items, a type; set required.", about: defining, test: given((*session).defined, variableSchemasStructural)}),
	}
}

func inPlaceAndUpgrades() []check {
	return []check{
		say("CanUpdateMachine and CanUpdateMachineSet patch the spec of current objects, with patches that apply.",
			"Of a MachineSet and of templates, spec.template.spec. An empty patch says that the extension cannot change the object in place.",
			check{remedy: "Compute the patch from current to what can be reached, within the spec.", about: updating, test: given((*session).succeeded, inPlacePatchesApply)}),
		say("CanUpdateMachine and CanUpdateMachineSet patch towards what is desired.",
			"A field has its current or its desired value afterwards. Anything else could never make the two equal.",
			check{remedy: "Take values from desired alone.", about: updating, test: given((*session).succeeded, inPlaceTowardsDesired)}),
		say("CanUpdateMachine and CanUpdateMachineSet patch nothing when nothing differs.",
			"Asked with current also as desired, patches are empty or change nothing.",
			check{remedy: "Patch only fields that differ.", about: updating, test: given((*session).succeeded, inPlaceNothingToDo)}),
		say("GenerateUpgradePlan leads the control plane to the version that is wanted, one minor version at a time.",
			"Each step is newer than the one before, no minor version is left out, and the last step is the version of the request.",
			check{remedy: "Sort the steps, fill the gaps, and end with toKubernetesVersion.", about: planning, test: given((*session).upgradePlan, controlPlanePlanLeadsThere)}),
		say("GenerateUpgradePlan leads workers only to versions that the control plane goes to.",
			"Each step is newer than the one before, at most three minor versions, and the last is the version of the request. Without any steps the caller chooses them.",
			check{remedy: "Take the steps of the workers from those of the control plane, or leave them out.", about: planning, test: given((*session).upgradePlan, workersPlanFollows)}),
	}
}

// advice is about requests that no caller sends. It is last: if the server stops
// answering because of it, all other checks have been run.
func advice() []check {
	return []check{
		say("A request whose content type is not JSON is refused.",
			"With a status code 4xx, best 415, unless it is application/json.",
			check{Check: Check{Advice: true}, remedy: "Check the Content-Type header before the body.", about: everyPath, test: wrongContentTypeRefused}),
		say("A request that is no JSON object is refused.",
			"With a status code 4xx, best 400: JSON that breaks off, a list, no body at all.",
			check{Check: Check{Advice: true}, remedy: "Answer 400 when the request cannot be decoded.", about: everyPath, test: brokenJSONRefused}),
		say("A request of another kind is refused.",
			"With a status code 4xx, best 400. Who answers it has not seen what it was asked.",
			check{Check: Check{Advice: true}, remedy: "Compare kind and apiVersion of the request with those of the hook.", about: everyPath, test: wrongKindRefused}),
		say("A request by another method than POST is refused.",
			"With a status code 4xx, best 405. Crawlers and health checks use GET, and hooks have effects.",
			check{Check: Check{Advice: true}, remedy: "Register paths for POST alone.", about: everyPath, test: getRefused}),
	}
}
