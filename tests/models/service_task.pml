/* Generated from the transition table by `python -m tools.models`; not to be edited.
 * Several deciders, sweepers and cancellers on one task of the service.
 */

mtype:state = { APPROVED, CANCELLED, DENIED, EXPIRED, FAILED, PENDING };
mtype:event = { APPROVE, CANCEL, DENY, EXPIRE, FAIL };
mtype:state state = PENDING;
byte grants = 0;

active [3] proctype worker() {
  mtype:state seen, next;
  mtype:event happened;
  bool won;
  do
  :: atomic {
     seen = state;
     if
     :: seen == PENDING -> happened = APPROVE; next = APPROVED
     :: seen == PENDING -> happened = CANCEL; next = CANCELLED
     :: seen == PENDING -> happened = DENY; next = DENIED
     :: seen == PENDING -> happened = EXPIRE; next = EXPIRED
     :: seen == PENDING -> happened = FAIL; next = FAILED
     :: seen == APPROVED || seen == CANCELLED || seen == DENIED || seen == EXPIRED || seen == FAILED -> break
     fi
     };
     atomic {
       won = (state == seen);
       if
       :: won ->
          state = next;
          if
          :: happened == APPROVE -> grants++
          :: else -> skip
          fi
       :: else -> skip
       fi
     };
     won = false; seen = 0; next = 0; happened = 0
  od
}

ltl approved_is_final { [] ((state == APPROVED) -> [] (state == APPROVED)) }
ltl cancelled_is_final { [] ((state == CANCELLED) -> [] (state == CANCELLED)) }
ltl denied_is_final { [] ((state == DENIED) -> [] (state == DENIED)) }
ltl expired_is_final { [] ((state == EXPIRED) -> [] (state == EXPIRED)) }
ltl failed_is_final { [] ((state == FAILED) -> [] (state == FAILED)) }
ltl at_most_one_approval { [] (grants <= 1) }
ltl approved_means_granted { [] ((grants == 1) <-> (state == APPROVED)) }
